"""A leader that only answers: what the API asks through the real inbox comes back in the shape that a leader gives."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from itinerary.protocol.errors import BrokerUnavailable
from itinerary.protocol.instants import MILLISECOND
from scheduler_service.api.openapi.examples import EXAMPLES
from scheduler_service.broker.inbox import RedisInbox
from scheduler_service.core.balancing.placements import RebalanceAsked
from scheduler_service.core.leader.messages import CancelRun, InboxMessage, JobChanged, Query, RunEnqueued, decode
from tests.support.processes import wait_until

STATISTICS: dict[str, Any] = {
    "since": "2026-11-27T10:00:00Z",
    "index_runs": 42,
    "last_rebuild_at": "2026-11-27T10:00:30Z",
    "last_iteration_at": "2026-11-27T10:00:31Z",
    "oldest_due_at": None,
    "active_runs": 5,
    "states": {"pending": 2, "running": 3},
    "workers": [
        {
            "name": "celery@here", "alive": True, "last_seen_at": "2026-11-27T10:00:31Z", "concurrency": 4,
            "queues": ["default"], "running": ["a_2026-11-27T10:00:00Z"],
        },
        {
            "name": "celery@gone", "alive": False, "last_seen_at": "2026-11-27T09:00:31Z", "concurrency": 4,
            "queues": ["default"], "running": [],
        },
    ],
    "queues": [{"name": "default", "pending": 2, "oldest_pending_at": "2026-11-27T10:00:00Z", "workers": 1}],
}  # fmt: skip


class AnsweringLeader(AbstractContextManager["AnsweringLeader"]):
    """Reads the inbox from its start, keeps what it was told, answers queries by `term`, each after `first`."""

    def __init__(self, redis_url: str, term: int = 1, first: Callable[[], object] = lambda: None) -> None:
        self.term = term
        self._first = first
        self.reported: list[InboxMessage] = []
        self.statistics = STATISTICS
        self.limits: list[dict[str, Any]] = []
        self.tasks: dict[str, Any] = {"error": "unknown query"}
        self.progress: Callable[[Query], dict[str, Any]] | None = None
        self.waiting: Callable[[Query], dict[str, Any]] | None = None
        self._inbox = RedisInbox(redis_url)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True, name="answering leader")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(60)
        self._inbox.close()

    def wait_for(self, message: InboxMessage) -> None:
        """Until this was heard."""
        wait_until(lambda: message in self.reported, what=lambda: f"{message}; heard was {self.reported}")

    def told(self) -> list[InboxMessage]:
        """What was told, without the questions."""
        return [m for m in self.reported if isinstance(m, JobChanged | RunEnqueued | CancelRun)]

    def _serve(self) -> None:
        position = "0-0"
        while not self._over.is_set():
            try:
                batch = self._inbox.read(position, 100, 20 * MILLISECOND)
            except BrokerUnavailable:  # as a leader does: it is asked again
                self._over.wait(0.02)
                continue
            position = batch.position
            for _, fields in batch.entries:
                message = decode(fields)
                self.reported.append(message)
                if isinstance(message, Query | RebalanceAsked):
                    self._first()
                    self._inbox.reply(message.reply_to, self._answer(message))

    def _answer(self, question: Query | RebalanceAsked) -> dict[str, Any]:
        if isinstance(question, RebalanceAsked):
            return dict(EXAMPLES["PreviewOut" if question.kind == "preview" else "RebalanceOut"])
        match question.what:
            case "metrics":
                return {"text": "scheduler_is_leader 1\n"}
            case "distribution":
                return dict(EXAMPLES["DistributionOut"])
            case "waiting" | "limit" if self.waiting is not None:
                return self.waiting(question)
            case "progress" | "run" if self.progress is not None:
                return self.progress(question)
            case "tasks":
                return self.tasks
            case "limits":
                return {"limits": self.limits}
            case _:
                return {**self.statistics, "term": self.term}
