"""The production topology as plain processes: leaders with their own ports, several APIs, workers that come and go."""

import itertools
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from itinerary.client.sync import ApiError, Client, NoAnswer
from tests.support.command_line import Itinerary
from tests.support.processes import WARM_STOP, Child, free_port, project_env, wait_until
from tests.support.redis_server import RedisServer
from tests.support.warm_command import ServiceChild


class Topology(AbstractContextManager["Topology"]):
    """Parts by name (`leader-1`, `api-2`, `worker-3`); each keeps its port when it is started again."""

    def __init__(self, folder: Path, database_url: str, *, app: str, **settings: str) -> None:
        self.redis = RedisServer(folder)
        self._app = app
        self._env = project_env(
            ITINERARY_DATABASE_URL=database_url, ITINERARY_REDIS_URL=self.redis.url,
            ITINERARY_LOG_FORMAT="console", NO_COLOR="1", **settings,
        )  # fmt: skip
        self._ports: dict[str, int] = {}
        self.parts: dict[str, Child] = {}
        self._ended: list[Child] = []
        self._stack = ExitStack()

    @property
    def command_line(self) -> Itinerary:
        """The command line with the settings of this deployment."""
        return Itinerary(self._env)

    def start(self, name: str) -> None:
        """Start (again) the part of this name."""
        kind = name.partition("-")[0]
        port = self._ports.setdefault(name, free_port())
        words = {"worker": ["worker", "-c", "2", "--app", self._app], "api": ["api", "--port", str(port)]}
        env = self._env | ({"ITINERARY_METRICS_PORT": str(port)} if kind == "leader" else {})
        child = ServiceChild(*words.get(kind, [kind]), env=env)
        self.parts[name] = self._stack.enter_context(child)

    def stop(self, *names: str) -> None:
        """SIGTERM to all at once, as every orchestrator says it; each must end by itself, and without complaint."""
        for name in names:
            self.parts[name].signal(signal.SIGTERM)
        for name in names:
            child = self.parts.pop(name)
            status = child.wait(WARM_STOP)
            assert status in (0, -15), f"{name} ended with {status}:\n{child.output}"
            self._ended.append(child)

    def restart(self, name: str) -> None:
        """Stop, start, and wait until it takes part again."""
        self.stop(name)
        self.start(name)
        self.wait_until_well(name)

    def wait_until_well(self, name: str) -> None:
        """Until the part says so itself; a worker is well when the leader hears it."""
        if name.startswith("worker"):
            child = self.parts[name]
            wait_until(lambda: " ready" in child.output, what=lambda: self.output)
        else:
            wait_until(lambda: self.ask(name, "/healthz") is not None, what=lambda: self.output)

    def ask(self, name: str, path: str) -> str | None:
        """What a part's port answers; None where it answers nothing, or an error."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ports[name]}{path}", timeout=5) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            return None

    def figure(self, series: str) -> float | None:
        """The greatest value that any leader shows of a series, written with its labels."""
        texts = [self.ask(name, "/metrics") or "" for name in self.parts if name.startswith("leader")]
        values = [value for text in texts for value in re.findall(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)]
        return max(map(float, values), default=None)

    def clients(self) -> list[Client]:
        """One for each API."""
        return [Client(f"http://127.0.0.1:{self._ports[name]}") for name in self._ports if name.startswith("api")]

    @property
    def output(self) -> str:
        return "\n".join(f"--- {name}\n{child.output[-6000:]}" for name, child in self.parts.items())

    def lines_with(self, text: str) -> list[str]:
        """Of what every part said, those of before a restart too."""
        return [line for child in [*self._ended, *self.parts.values()] for line in list(child.lines) if text in line]

    def __enter__(self) -> Self:
        self._stack.enter_context(self.redis)
        self.command_line.done("migrate")
        for name in ("leader-1", "leader-2", "api-1", "api-2", "worker-1"):
            self.start(name)
        for name in list(self.parts):
            self.wait_until_well(name)
        wait_until(lambda: self.figure("scheduler_workers_alive"), what=lambda: self.output, every=0.1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


class Load:
    """Enqueues `rate` runs a second, each until some API took it; `accepted` has the run id of each key."""

    def __init__(self, clients: list[Client], task: str) -> None:
        self._clients = clients
        self._task = task
        self.kwargs: dict[str, object] = {}
        self.rate = 5.0
        self.accepted: dict[str, str] = {}
        self.refused = 0
        self._stopped = threading.Event()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopped.is_set():
            self._enqueue(f"order-{len(self.accepted)}")
            due = max(due + 1 / self.rate, time.monotonic() - 1)
            self._stopped.wait(max(0.0, due - time.monotonic()))

    def _enqueue(self, key: str) -> None:
        kwargs = self.kwargs  # of a key that was perhaps taken they must stay the same
        for number in itertools.count(len(self.accepted)):
            client = self._clients[number % len(self._clients)]
            try:
                run = client.enqueue(self._task, kwargs=kwargs, idempotency_key=key)
            except (ApiError, NoAnswer):
                # Perhaps taken all the same: the key makes asking again harmless.
                self.refused += 1
                self._stopped.wait(0.02)
            else:
                self.accepted[key] = run["run_id"]
                return

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """Enqueue for the time of the block."""
        thread = threading.Thread(target=self._run, name="load")
        thread.start()
        try:
            yield self
        finally:
            self._stopped.set()
            thread.join()


def eventually(question: Callable[[], float | None], holds: Callable[[float], bool], what: str) -> None:
    """Wait until a figure is there and as it should be."""
    seen: list[float | None] = [None]

    def ask() -> bool:
        seen[0] = question()
        return seen[0] is not None and holds(seen[0])

    wait_until(ask, what=lambda: f"{what}; last seen: {seen[0]}", every=0.2)
