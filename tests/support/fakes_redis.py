"""Inbox, claims and dispatcher in memory. They pass the suites that the real adapters pass."""

import itertools
import json
import threading
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from itinerary.protocol.errors import BrokerUnavailable
from itinerary.protocol.identity import task_id
from itinerary.protocol.instants import MILLISECOND, SECOND, Duration, Instant
from itinerary.protocol.wire import RECALLED, entry
from scheduler_service.core.leader.results import ServerEpoch
from scheduler_service.core.model import DispatchedRun
from scheduler_service.core.redis_marks import Marks
from scheduler_service.ports.broker import InboxBatch, QueueHead


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

    def dead_letter(self, entries: Sequence[tuple[str, Mapping[str, str], str]]) -> None:
        self._must_answer()
        self.dead += [(entry_id, dict(fields), reason) for entry_id, fields, reason in entries]

    def trim(self, position: str) -> None:
        with self._changed:
            self._must_answer()
            del self._entries[: bisect_right(self._entries, _numbers(position), key=itemgetter(0))]

    def depth(self) -> int:
        self._must_answer()
        return len(self._entries)

    def wipe(self) -> None:
        """Everything is gone; new entries begin with the lowest numbers again."""
        self._entries.clear()
        self._numbers = itertools.count(1)

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
        first = bisect_right(self._entries, _numbers(position), key=itemgetter(0))
        return tuple((f"{at}-{seq}", fields) for (at, seq), fields in self._entries[first : first + count])

    def _must_answer(self) -> None:
        if self.away:
            raise BrokerUnavailable("the fake inbox is away")


class FakeClaims:
    """Claims as dictionaries; `ask`, `claim` and `leave` are the worker's side, `wipe` and `restart` are faults."""

    LEADER = "leader"

    def __init__(self) -> None:
        self.holders: dict[str, str] = {}
        self.flagged: set[str] = set()
        self.beacon: Mapping[str, Any] | None = None
        self.watermarks: dict[str, int] = {}
        self.away = False
        self._results: dict[str, Mapping[str, str]] = {}
        self._names = itertools.count(1)
        self._server = "server1"
        self._seen: str | None = None
        self._accepted: tuple[str, int] = ("", 0)

    def take(self, task_ids: Sequence[str]) -> list[bool] | None:
        self._must_answer()
        if not self.query_epoch().accepted:
            return None
        for one in task_ids:
            if self._recalled(one) is not None:
                self.holders[one] = self.LEADER
        return [self.holders.setdefault(one, self.LEADER) == self.LEADER for one in task_ids]

    def recall(self, messages: Sequence[tuple[str, int]]) -> list[bool] | None:
        self._must_answer()
        if not self.query_epoch().accepted:
            return None
        won = []
        for one, seq in messages:
            before = self._recalled(one)
            won.append(one not in self.holders or before is not None)
            if won[-1]:
                self.holders[one] = f"{RECALLED}{max(seq, before or 0)}"
        return won

    def _recalled(self, task_id: str) -> int | None:
        """Up to which message the attempt is recalled."""
        holder = self.holders.get(task_id, "")
        return int(holder.removeprefix(RECALLED)) if holder.startswith(RECALLED) else None

    def announce(self, beacon: Mapping[str, Any]) -> None:
        self._must_answer()
        self.beacon = dict(beacon)

    def flag(self, task_ids: Sequence[str]) -> None:
        self._must_answer()
        self.flagged.update(task_ids)

    def results(self, task_ids: Sequence[str]) -> list[Mapping[str, str] | None]:
        self._must_answer()
        return [self._results.get(one) for one in task_ids]

    def forget_results(self, task_ids: Sequence[str]) -> None:
        self._must_answer()
        for one in task_ids:
            self._results.pop(one, None)

    def forget(self, task_ids: Sequence[str]) -> None:
        self.forget_results(task_ids)
        for one in task_ids:
            self.holders.pop(one, None)
            self.flagged.discard(one)

    def raise_watermarks(self, watermarks: Mapping[str, int], lowest: int) -> dict[str, int]:
        self._must_answer()
        if self._accepted[0] == self._server:
            self._accepted = (self._server, max(lowest, self._accepted[1]))
        for queue, watermark in watermarks.items():
            self.watermarks[queue] = max(watermark, self.watermarks.get(queue, 0))
        raised = {queue: self.watermark_of(queue) for queue in watermarks}
        if self._accepted[0] == self._server:
            self.watermarks = {
                queue: watermark for queue, watermark in self.watermarks.items() if watermark > self._accepted[1]
            }
        return raised

    def watermark_of(self, queue: str) -> int:
        """Below it, nothing of this queue starts."""
        server, watermark = self._accepted
        return max(self.watermarks.get(queue, 0), watermark if server == self._server else 0)

    def query_epoch(self) -> ServerEpoch:
        self._must_answer()
        if self._seen is None or not self._seen.startswith(f"{self._server}:"):
            self._seen = f"{self._server}:{next(self._names)}"
        server, watermark = self._accepted
        return ServerEpoch(self._seen, server == self._server, watermark)

    def accept(self, name: str, watermark: int) -> bool:
        if self.query_epoch().name != name:
            return False
        self._accepted = (self._server, max(watermark, self._accepted[1]))
        return True

    def eviction_policy(self) -> str:
        self._must_answer()
        return "noeviction"

    def ask(self, task_id: str, token: str, queue: str = "default", seq: int | None = None) -> str:
        """A worker asks to start this attempt; the verdict."""
        if not self.query_epoch().accepted:
            return "wait"
        recalled = self._recalled(task_id)
        if task_id in self.holders and recalled is None:
            return "won" if self.holders[task_id] == token else "held"
        if recalled is not None and (seq is None or seq <= recalled):
            return "stale"
        if task_id in self.flagged:
            return "cancelled"
        if seq is not None and seq < self.watermark_of(queue):
            return "stale"
        self.holders[task_id] = token
        return "won"

    def claim(self, task_id: str, token: str, queue: str = "default", seq: int | None = None) -> bool:
        """Whether the answer is yes."""
        return self.ask(task_id, token, queue, seq) == "won"

    def leave(self, task_id: str, fields: Mapping[str, str]) -> None:
        """A worker leaves its terminal report."""
        self._must_answer()
        self._results[task_id] = dict(fields)

    def wipe(self) -> None:
        """FLUSHALL."""
        for kept in (self.holders, self.flagged, self.watermarks, self._results):
            kept.clear()
        self._seen, self._accepted = None, ("", 0)

    def restart(self) -> None:
        """Another server process with the same data."""
        self._server = f"server{next(self._names)}"

    def _must_answer(self) -> None:
        if self.away:
            raise BrokerUnavailable("the fake claims are away")


class FakeDispatcher:
    """Queues as deques of runs; `published` keeps all that was ever sent.

    The next `unanswered` publishes are lost with their answer, as by a broker that restarts or is full. Of what goes to
    a queue among `refused` nothing is taken, nor what goes with it.
    """

    def __init__(self) -> None:
        self.published: list[DispatchedRun] = []
        self.revoked: list[str] = []
        self.away = False
        self.unanswered = 0
        self.refused: set[str] = set()
        self.asked = 0
        self.server = "broker1"
        self._marks: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._accepted = ("", 0)
        self._queues: dict[str, deque[DispatchedRun | None]] = defaultdict(deque)

    def publish(self, runs: Sequence[DispatchedRun]) -> None:
        self._must_answer()
        self.asked += 1
        if any(run.queue in self.refused for run in runs):
            raise BrokerUnavailable("the fake broker refuses the queue")
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

    def query_epoch(self) -> ServerEpoch | None:
        self._must_answer()
        server, watermark = self._accepted
        return ServerEpoch(self.server, server == self.server, watermark)

    def accept(self, name: str, watermark: int) -> None:
        self._must_answer()
        self._accepted = (name, max(watermark, self._accepted[1]))

    def mark(self) -> dict[str, Any]:
        self._must_answer()
        self._marks.setdefault("mark", f"mark{next(self._numbers)}")
        return {"transport": "fake", "where": "here", **self._marks}

    def wipe(self) -> None:
        """FLUSHALL."""
        self._marks.clear()
        self._queues.clear()
        self._accepted = ("", 0)

    def pop(self, queue: str) -> str | None:
        """A worker takes the next message: the task id, or None for an empty queue or a foreign message."""
        run = self.pop_run(queue)
        return None if run is None else task_id(run.run_id, run.attempt)

    def pop_run(self, queue: str) -> DispatchedRun | None:
        """The same, with all that the message says."""
        return self._queues[queue].popleft() if self._queues[queue] else None

    def put_back(self, runs: Iterable[DispatchedRun | None]) -> None:
        """A worker leaves what it took in this order: as kombu does, with the newest at the head."""
        for run in runs:
            if run is not None:
                self._queues[run.queue].appendleft(run)

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
    def _head(waiting: "deque[DispatchedRun | None]") -> QueueHead:
        seq = next((run.seq for run in waiting if run is not None), None)
        return QueueHead(len(waiting), seq, none_of_ours=seq is None)

    def _must_answer(self) -> None:
        if self.away:
            raise BrokerUnavailable("the fake broker is away")


class FakeMarks:
    """One Redis and one broker, which always answer."""

    def put(self) -> Marks:
        return Marks("redis", "broker")

    def read(self) -> Marks:
        return Marks("redis", "broker")

    def read_redis(self) -> str | None:
        return "redis"


def _numbers(position: str) -> tuple[int, int]:
    at, _, seq = position.partition("-")
    return int(at), int(seq or 0)
