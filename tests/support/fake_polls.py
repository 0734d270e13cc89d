"""Looks of the leader into the fake database, a part at a time."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader.lane_reads import HeadsRead, LanePage, LanesRead
from scheduler_service.core.leader.poll_state import CancelsRead, ExpiredRead, OverdueRead, Place
from scheduler_service.core.model import ActiveRun, RunKind
from scheduler_service.core.run_state import ACTIVE, WAITING, RunState
from tests.support.fake_rows import RunRow, Tables


class FakePolls:
    """A part of LeaderStore."""

    _tables: Tables

    def due_runs(self, until: Instant, limit: int, paused: Collection[str] = ()) -> list[ActiveRun]:
        with self._tables.lock:
            due = [row for row in self._in_turn(until) if row.kind is not RunKind.OCCURRENCE]
            queues = sorted({row.queue for row in due}.difference(paused))
            return [row.active() for queue in queues for row in [r for r in due if r.queue == queue][:limit]]

    def waiting_lanes(self, queue: str, first: str, limit: int) -> LanesRead:
        with self._tables.lock:
            asked_for = [r for r in self._tables.runs.values() if r.queue == queue and r.kind is not RunKind.OCCURRENCE]
            found = sorted({row.lane for row in asked_for if row.state in WAITING and row.lane >= first})
            return LanesRead(queue, tuple(found[:limit]), found[limit] if len(found) > limit else None)

    def lane_heads(self, until: Instant, pages: Sequence[LanePage], limit: int) -> HeadsRead:
        with self._tables.lock:
            due = [row for row in self._in_turn(until) if row.kind is not RunKind.OCCURRENCE]
            runs: list[ActiveRun] = []
            more: list[LanePage] = []
            for page in pages:
                of_lane = [row for row in due if (row.queue, row.lane) == (page.queue, page.lane)]
                found, after = _next(of_lane, limit, page.after, lambda row: _turn(row)[1:])
                runs += found
                more += [page._replace(after=after)] if after is not None else []
            return HeadsRead(tuple(pages), tuple(runs), tuple(more))

    def overdue_runs(self, until: Instant, limit: int, after: Place | None) -> OverdueRead:
        with self._tables.lock:
            planned = [row for row in self._in_turn(until) if row.kind is RunKind.OCCURRENCE]
            return OverdueRead(*_next(planned, limit, after, _turn))

    def expired_runs(self, until: Instant, limit: int, after: Place | None) -> ExpiredRead:
        with self._tables.lock:
            asked_for = [r for r in self._tables.runs.values() if r.kind is not RunKind.OCCURRENCE]
            waiting = [r for r in asked_for if r.state is RunState.SCHEDULED and r.start_by is not None]
            late = sorted((r for r in waiting if _deadline(r)[0] < until), key=_deadline)
            return ExpiredRead(*_next(late, limit, after, _deadline))

    def cancel_requests(self, limit: int, after: Place | None) -> CancelsRead:
        with self._tables.lock:
            rows = self._tables.runs.values()
            wanted = [r for r in rows if r.state in ACTIVE - WAITING and r.cancel_requested_at is not None]
            return CancelsRead(*_next(sorted(wanted, key=_number), limit, after, _number))

    def _in_turn(self, until: Instant) -> list[RunRow]:
        due = [row for row in self._tables.runs.values() if row.state in WAITING and row.due_at < until]
        return sorted(due, key=_turn)


def _turn(row: RunRow) -> Place:
    return row.queue, row.priority, row.due_at, row.id


def _deadline(row: RunRow) -> Place:
    return row.start_by, row.id


def _number(row: RunRow) -> Place:
    return (row.id,)


def _next(
    rows: Sequence[RunRow], limit: int, after: Place | None, key: Callable[[RunRow], Place]
) -> tuple[tuple[Any, ...], Place | None]:
    found = [row for row in rows if after is None or key(row) > after][:limit]
    return tuple(row.active() for row in found), key(found[-1]) if len(found) == limit else None
