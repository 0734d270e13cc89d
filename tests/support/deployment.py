"""The same parts apart, as a production has them: PostgreSQL, Redis, two leaders, a worker and the API as processes.

Leaders and API connect to PostgreSQL as roles with no more rights than the manual lists; the worker knows no database.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from itinerary.client.sync import ApiError, Client, NoAnswer
from tests.support.processes import PATIENCE, Child, free_port, project_env, wait_until
from tests.support.redis_server import RedisServer
from tests.support.roles import NAMES, narrow_roles
from tests.support.sentinels import Sentinels
from tests.support.warm_command import ServiceChild

DATABASE_URL = "ITINERARY_DATABASE_URL"
ALL = ("leader-1", "leader-2", "worker", "api")


class Deployment(AbstractContextManager["Deployment"]):
    """Two leaders, a worker of `app` and an API, or only some of these, over a database and a Redis of its own."""

    def __init__(
        self,
        folder: Path,
        database_url: str,
        *,
        app: str = "",
        parts: Sequence[str] = ALL,
        redis: Sentinels | None = None,
        **settings: str,
    ) -> None:
        self.redis = redis or RedisServer(folder)
        self.api_url = f"http://127.0.0.1:{free_port()}"
        self._app, self._wanted = app, parts
        self.env = {DATABASE_URL: database_url} | project_env(
            ITINERARY_REDIS_URL=self.redis.url,
            ITINERARY_API_PORT=self.api_url.rpartition(":")[2],
            ITINERARY_LOG_FORMAT="console",
            NO_COLOR="1",
            **settings,
        )
        self.parts: dict[str, Child] = {}
        self._urls: dict[str, str] = {}
        self._stack = ExitStack()

    def client(self) -> Client:
        return Client(self.api_url, timeout=PATIENCE)

    def start(self, part: str) -> Child:
        """Start (again) `leader-1`, `leader-2`, `worker` or `api`."""
        words = {"worker": ["worker", "-c", "4", "--app", self._app], "api": ["api"]}.get(part, ["leader"])
        env = {name: value for name, value in self.env.items() if name != DATABASE_URL}
        if words[0] in self._urls:
            env[DATABASE_URL] = self._urls[words[0]]
        child = ServiceChild(*words, env=env)
        self.parts[part] = self._stack.enter_context(child)
        return child

    def leading(self) -> str:
        """The name of the leader process that leads now."""
        led = [name for name, child in self.parts.items() if name.startswith("leader") and child.running]
        wait_until(lambda: any(self._terms(name) for name in led), what=lambda: self.output)
        return max(led, key=self._terms)

    def kill(self, part: str) -> None:
        """kill -9 of a part, or of Redis, which starts again unless it has a replica; `leader`: the one that leads."""
        if part == "redis":
            self.redis.kill()
            if isinstance(self.redis, RedisServer):
                self.redis.start()
        elif part == "leader":
            dead = self.leading()
            term = self._terms(dead)
            self.parts[dead].kill_alone()
            # Only the standby can go on: the dead one comes back after it has taken over.
            wait_until(lambda: max(map(self._terms, self.parts)) > term, what=lambda: self.output)
            self.start(dead)
        else:
            self.parts[part].kill_alone()
            self.start(part)

    @property
    def output(self) -> str:
        return "\n".join(f"--- {name}\n{child.output}" for name, child in self.parts.items())

    def _terms(self, name: str) -> int:
        """The last term by which the part of this name led; 0 where it never did."""
        lines = [line for line in list(self.parts[name].lines) if "leading" in line and "term=" in line]
        return int(lines[-1].split("term=")[1].split()[0]) if lines else 0

    def _leads(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.status().get("leader"))
        except (ApiError, NoAnswer):
            return False

    def __enter__(self) -> Self:
        self._stack.enter_context(self.redis)
        migrate = ServiceChild("migrate", env=self.env)
        assert migrate.wait() == 0, migrate.output
        url = self.env[DATABASE_URL]
        is_sqlite = url.startswith("sqlite")
        self._urls = dict.fromkeys(NAMES, url) if is_sqlite else self._stack.enter_context(narrow_roles(url))
        for part in self._wanted:
            self.start(part)
        wait_until(self._leads, what=lambda: self.output, every=0.1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
