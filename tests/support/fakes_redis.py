"""Inbox, claims and dispatcher in memory. They pass the suites that the real adapters pass."""

import itertools
import json
import threading
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from scheduler_service.core.errors import BrokerUnavailable
from scheduler_service.core.identity import task_id
from scheduler_service.core.instants import MILLISECOND, SECOND, Duration, Instant
from scheduler_service.core.model import ReleasedRun
from scheduler_service.core.wire import entry
from scheduler_service.ports import InboxBatch, QueueHead


class FakeInbox:
    """The stream as a list; `dead` holds what was buried."""

    def __init__(self) -> None:
        self.dead: list[tuple[str, Mapping[str, str], str]] = []
        self.away = False
        self._entries: list[tuple[tuple[int, int], Mapping[str, str]]] = []
        self._replies: dict[str, deque[str]] = defaultdict(deque)
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()

    def read(self, position: str, count: int, block: Duration) -> InboxBatch:
        with self._changed:
            self._must_answer()
            found = self._after(position, count)
            if not found and block > 0:
                self._changed.wait(block / SECOND)
                self._must_answer()
                found = self._after(position, count)
        return InboxBatch(found, found[-1][0] if found else position, len(found) < count)

    def send(self, kind: str, at: Instant, body: Mapping[str, Any]) -> None:
        self.append(entry(kind, at, dict(body)))

    def append(self, fields: Mapping[str, str]) -> str:
        """Append raw fields, well-formed or not; the entry's id."""
        with self._changed:
            self._must_answer()
            number = next(self._numbers)
            self._entries.append(((number, 0), dict(fields)))
            self._changed.notify_all()
            return f"{number}-0"

    def bury(self, entry_id: str, fields: Mapping[str, str], reason: str) -> None:
        self._must_answer()
        self.dead.append((entry_id, dict(fields), reason))

    def trim(self, position: str) -> None:
        with self._changed:
            self._must_answer()
            self._entries = [one for one in self._entries if one[0] > _numbers(position)]

    def depth(self) -> int:
        self._must_answer()
        return len(self._entries)

    def reply(self, reply_to: str, body: Mapping[str, Any]) -> None:
        with self._changed:
            self._must_answer()
            self._replies[reply_to].append(json.dumps(dict(body)))
            self._changed.notify_all()

    def await_reply(self, reply_to: str, timeout: Duration) -> Mapping[str, Any] | None:
        with self._changed:
            self._must_answer()
            self._changed.wait_for(lambda: self._replies[reply_to], max(timeout, MILLISECOND) / SECOND)
            waiting = self._replies[reply_to]
            answer: Mapping[str, Any] | None = json.loads(waiting.popleft()) if waiting else None
            return answer

    def _after(self, position: str, count: int) -> tuple[tuple[str, Mapping[str, str]], ...]:
        later = (one for one in self._entries if one[0] > _numbers(position))
        return tuple((f"{at}-{seq}", fields) for (at, seq), fields in itertools.islice(later, count))

    def _must_answer(self) -> None:
        if self.away:
            raise BrokerUnavailable("the fake inbox is away")


class FakeClaims:
    """Claims as dictionaries; `claim` and `leave` are the worker's side."""

    LEADER = "leader"

    def __init__(self) -> None:
        self.holders: dict[str, str] = {}
        self.flagged: set[str] = set()
        self.away = False
        self._results: dict[str, Mapping[str, str]] = {}

    def take(self, task_ids: Sequence[str]) -> list[bool]:
        self._must_answer()
        return [self.holders.setdefault(one, self.LEADER) == self.LEADER for one in task_ids]

    def flag(self, task_ids: Sequence[str]) -> None:
        self._must_answer()
        self.flagged.update(task_ids)

    def results(self, task_ids: Sequence[str]) -> list[Mapping[str, str] | None]:
        self._must_answer()
        return [self._results.get(one) for one in task_ids]

    def forget(self, task_ids: Sequence[str]) -> None:
        self._must_answer()
        for one in task_ids:
            self._results.pop(one, None)

    def claim(self, task_id: str, token: str) -> bool:
        """A worker asks to start this attempt."""
        self._must_answer()
        return self.holders.setdefault(task_id, token) == token if task_id not in self.flagged else False

    def leave(self, task_id: str, fields: Mapping[str, str]) -> None:
        """A worker leaves its terminal report."""
        self._must_answer()
        self._results[task_id] = dict(fields)

    def _must_answer(self) -> None:
        if self.away:
            raise BrokerUnavailable("the fake claims are away")


class FakeDispatcher:
    """Queues as deques of runs; `published` keeps all that was ever sent.

    The next `unanswered` publishes are lost with their answer, as by a broker that restarts or is full.
    """

    def __init__(self) -> None:
        self.published: list[ReleasedRun] = []
        self.revoked: list[str] = []
        self.away = False
        self.unanswered = 0
        self._queues: dict[str, deque[ReleasedRun | None]] = defaultdict(deque)

    def publish(self, runs: Sequence[ReleasedRun]) -> None:
        self._must_answer()
        if self.unanswered:
            self.unanswered -= 1
            raise BrokerUnavailable("the fake broker gave no answer")
        for run in runs:
            self.published.append(run)
            self._queues[run.queue].append(run)

    def ping(self) -> None:
        self._must_answer()

    def heads(self, queues: Sequence[str]) -> dict[str, QueueHead]:
        self._must_answer()
        return {queue: self._head(self._queues[queue]) for queue in queues}

    def revoke(self, task_ids: Sequence[str]) -> None:
        self._must_answer()
        self.revoked.extend(task_ids)

    def pop(self, queue: str) -> str | None:
        """A worker takes the next message: the task id, or None for an empty queue or a foreign message."""
        run = self._queues[queue].popleft() if self._queues[queue] else None
        return None if run is None else task_id(run.run_id, run.attempt)

    def depth(self, queue: str) -> int:
        """How many messages wait."""
        return len(self._queues[queue])

    def lose_everything(self) -> None:
        """A restart without persistence."""
        self._queues.clear()

    def push_foreign(self, queue: str) -> None:
        """Somebody else's message."""
        self._queues[queue].append(None)

    @staticmethod
    def _head(waiting: "deque[ReleasedRun | None]") -> QueueHead:
        return QueueHead(len(waiting), next((run.seq for run in waiting if run is not None), None))

    def _must_answer(self) -> None:
        if self.away:
            raise BrokerUnavailable("the fake broker is away")


def _numbers(position: str) -> tuple[int, int]:
    at, _, seq = position.partition("-")
    return int(at), int(seq or 0)
