"""Real Celery workers as child processes, and the leader's side of them: what is sent, and what they report."""

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from itinerary.protocol.errors import BrokerUnavailable
from itinerary.protocol.instants import SECOND, parse_instant
from scheduler_service.broker.claims import RedisClaims
from scheduler_service.broker.client import connect
from scheduler_service.broker.dispatcher import CeleryDispatcher, publishing_app
from scheduler_service.broker.inbox import RedisInbox
from scheduler_service.core.leader.messages import Heartbeat, InboxMessage, decode
from scheduler_service.core.model import DispatchedRun
from scheduler_service.sql.database import host_now
from tests.support.processes import PATIENCE, Child, project_env, wait_until
from tests.support.warm_command import WarmChild

# Another interpreter, with other releases of Python, Celery and redis-py, for workers alone.
WORKER_PYTHON = os.environ.get("WORKER_PYTHON", sys.executable)
NOON = parse_instant("2026-12-01T12:00:00Z")


def dispatched(name: str, task: str, *args: Any, **changes: Any) -> DispatchedRun:
    """A run ready to be sent: first attempt, queue `default`."""
    run = DispatchedRun(
        run_id=name,
        attempt=1,
        seq=7_000_001,
        term=7,
        job_id=None,
        task=task,
        args=list(args),
        kwargs={},
        queue="default",
        priority=5,
        scheduled_at=NOON,
        due_at=NOON + 90 * SECOND,
        timeout=None,
    )
    return run._replace(**changes)


class Bench:
    """One Redis with workers on it; `truth` holds the lines that task bodies wrote. The broker may be another Redis."""

    def __init__(self, url: str, folder: Path, broker_url: str | None = None) -> None:
        self.url = url
        self.broker_url = broker_url or url
        self.folder = folder
        self.app = publishing_app(self.broker_url)
        self.dispatcher = CeleryDispatcher(self.app)
        self.claims = RedisClaims(url)
        self.inbox = RedisInbox(url)
        self.messages: list[InboxMessage] = []
        self._position = "0-0"
        self._truth = folder / "truth"
        self._stack = ExitStack()
        self.accept()

    def accept(self, watermark: int = 0) -> None:
        """What the leader does when it has heard everybody: from now on attempts can be claimed."""
        with suppress(BrokerUnavailable):  # the test has taken it away
            self.claims.accept(self.claims.query_epoch().name, watermark)

    def worker(self, *switches: str, name: str = "one", **settings: str) -> Child:
        """The user's app under Celery's own command, ready when this returns."""
        argv = ["-m", "celery", "-A", "tests.workers.userapp", "worker", "-n", f"{name}@here", "-Q", "default"]
        quiet = ["--without-gossip", "--without-mingle", "-l", "INFO"]
        return self.start([*argv, *quiet, *switches], **settings)

    def own_worker(self, *switches: str, **settings: str) -> Child:
        """The product's worker."""
        return self.start(["-m", "itinerary", *switches], **settings)

    def start(self, argv: list[str], **settings: str) -> Child:
        child = self.spawn(argv, **settings)
        self.reported(lambda m: isinstance(m, Heartbeat) and m.concurrency > 0, child=child)
        return child

    def spawn(self, argv: list[str], **settings: str) -> Child:
        """The same process, not waited for."""
        env = {"ITINERARY_REDIS_URL": self.url, "USERAPP_BROKER": self.broker_url, "TRUTH": str(self._truth)}
        variables = project_env(**env | settings)
        if sys.executable == WORKER_PYTHON and argv[0] == "-m":
            child = WarmChild(*argv[1:], env=variables)
        else:
            child = Child([WORKER_PYTHON, *argv], env=variables)
        self._stack.enter_context(child)
        return child

    def client(self) -> redis.Redis:
        """A plain client of the Redis that the workers use."""
        return connect(self.url)

    def publish(self, *runs: DispatchedRun) -> None:
        self.dispatcher.publish(runs)

    def gate(self, name: str = "gate") -> str:
        """The path of a file that tasks wait for."""
        return str(self.folder / name)

    def open_gate(self, name: str = "gate") -> None:
        (self.folder / name).touch()

    @property
    def truth(self) -> list[str]:
        return self._truth.read_text().splitlines() if self._truth.exists() else []

    def witnessed(self, line: str) -> None:
        """Wait until a task body wrote this."""
        wait_until(lambda: line in self.truth, what=lambda: f"{line!r} in {self.truth}")

    def reported(
        self, wanted: Callable[[InboxMessage], bool], child: Child | None = None, timeout: float = PATIENCE
    ) -> InboxMessage:
        """The first new message that is wanted; what came before it is kept in `messages` too."""
        seen = len(self.messages)

        def look() -> InboxMessage | None:
            nonlocal seen
            self._read()
            new, seen = self.messages[seen:], len(self.messages)
            return next((message for message in new if wanted(message)), None)

        def told() -> str:
            return f"a report; heard {self.messages}\n{child.output if child else ''}"

        found = wait_until(look, timeout, told)
        assert found is not None
        return found

    def report_of(self, run_id: str, kind: type[Any], attempt: int = 1, timeout: float = PATIENCE) -> Any:
        """The report of this kind about this attempt, heard already or soon."""

        def look() -> InboxMessage | None:
            self._read()
            return next((m for m in self.about(run_id, attempt) if isinstance(m, kind)), None)

        return wait_until(look, timeout, lambda: f"{kind.__name__} of {run_id}; heard {self.messages}")

    def about(self, run_id: str, attempt: int = 1) -> list[InboxMessage]:
        """All reports about one attempt so far."""
        wanted = (run_id, attempt)
        return [m for m in self.messages if (getattr(m, "run_id", ""), getattr(m, "attempt", 0)) == wanted]

    def next_heartbeat(self, listing: str = "") -> Heartbeat:
        """A heartbeat that is sent from now on, and that lists this run where one is named; its first part alone."""
        self._read()
        now = host_now()

        def fits(message: InboxMessage) -> bool:
            if not isinstance(message, Heartbeat) or message.at < now or message.part:
                return False
            return not listing or any(run_id == listing for run_id, _ in (*message.running, *message.received))

        message = self.reported(fits)
        assert isinstance(message, Heartbeat)
        return message

    def _read(self) -> None:
        try:
            batch = self.inbox.read(self._position, 1000, 0)
        except BrokerUnavailable:
            return  # the test has taken it away
        self._position = batch.position
        self.messages.extend(decode(fields) for _, fields in batch.entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self.dispatcher.close()
        self.claims.close()
        self.inbox.close()
