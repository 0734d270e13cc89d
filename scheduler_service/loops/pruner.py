"""The pruner's thread: at intervals it deletes rows older than `kept`, in small steps, while everything else continues.

Nothing waits for it: it never talks to the loop, its transactions are short, and it rests between them. A sweep goes at
most a day further than the one before, so after a long pause it catches up day by day. It looks for runs from where the
last one ended, since before that lie runs that are kept, and deleted rows until autovacuum comes. Once a term and once
a day it begins with the oldest.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import structlog

from itinerary.protocol.errors import RowRefused, StoreUnavailable
from itinerary.protocol.instants import DAY, MINUTE, SECOND, Duration, Instant, format_instant
from scheduler_service.core.contract.pruning import Pace, Past, horizon_of, next_horizon
from scheduler_service.core.model import Lease
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.loops.mailbox import monotonic
from scheduler_service.loops.repeating import Repeating
from scheduler_service.ports.pruning import Pruning
from scheduler_service.ports.stores import Meter

log = structlog.get_logger(__name__)

_FIRST: Final = MINUTE  # a takeover is busy enough
_EVERY: Final = 10 * MINUTE
_WHOLE: Final = DAY
_LEAST_REST_BEHIND: Final = SECOND


@dataclass(frozen=True, slots=True)
class Retention:
    """The pruning adapter, how long finished runs are kept, the host's clock, and the interval between sweeps.

    `whole`: the interval between sweeps that begin with the oldest run.
    """

    store: Pruning
    kept: Duration
    host_clock: Callable[[], Instant]
    first: Duration = _FIRST
    every: Duration = _EVERY
    whole: Duration = _WHOLE


class Pruner(Repeating):
    """One term's pruning; a sweep ends early when the leader stops or is no longer trusted.

    `is_behind`: the leader's own writes are late; each step of a sweep then leaves the database to them for a second.
    """

    def __init__(
        self,
        retention: Retention,
        renewer: LeaseRenewer,
        meter: Meter,
        is_behind: Callable[[], bool],
        on_crash: Callable[[BaseException], None],
    ) -> None:
        super().__init__("pruner", on_crash)
        self._retention = retention
        self._renewer = renewer
        self._meter = meter
        self._is_behind = is_behind
        self._wait = retention.first
        self._reached: Instant | None = None
        self._whole_at = 0

    def _once(self) -> None:
        if self._stopped.wait(self._wait / SECOND):
            return
        self._wait = self._retention.every
        try:
            last = self._show_last()
            before = self._sweep()
            if self._show_last() != last:  # not broken off
                self._reached = before
        except (StoreUnavailable, RowRefused) as exc:  # refused if the clock went back and the row is too young now
            log.warning("pruning put off", error=str(exc))

    def _show_last(self) -> Instant | None:
        ended_at = self._retention.store.last_sweep().ended_at
        if ended_at is not None:
            self._meter.swept(ended_at)
        return ended_at

    def _sweep(self) -> Instant | None:
        store, kept = self._retention.store, self._retention.kept
        needs = store.needs()
        before = next_horizon(needs, self._retention.host_clock(), kept)
        if before is None:
            return None
        self._reached = self._reached or needs.history_since
        began, gone = monotonic(), Counter[str]()
        since = self._since(began)
        for past, rows in sweep(store, self._renewer.lease, before, kept, self._may_go_on, since):
            gone[past] += rows
            self._meter.pruned(past, rows)
        if gone.total():
            seconds = round((monotonic() - began) / SECOND, 1)
            log.info("history pruned", before=format_instant(before), seconds=seconds, **gone)
        return before

    def _since(self, now: Instant) -> Instant | None:
        """Return where the sweep begins to look for runs; None for the oldest.

        The next one follows the interval though this one fails: deleted rows may be more than one statement can pass.
        """
        if now < self._whole_at:
            return self._reached
        self._whole_at = now + self._retention.whole
        return None

    def _may_go_on(self, rest: Duration) -> bool:
        if self._is_behind():
            rest = max(rest, _LEAST_REST_BEHIND)
        return not self._stopped.wait(rest / SECOND) and self._renewer.trusted()


def sweep(
    store: Pruning,
    lease: Lease | None,
    before: Instant,
    kept: Duration,
    go_on: Callable[[Duration], bool],
    since: Instant | None = None,
) -> Iterator[tuple[Past, int]]:
    """Delete rows that ended before `before`; yield the table and the number of rows of each committed transaction.

    `go_on` waits for the given time and returns whether to continue; otherwise the sweep ends unfinished. Runs that
    were due before `since` are left for a sweep without it.
    """
    store.begin(lease, before)  # even if nothing is found: the next sweep starts there
    for past in Past:
        of_past = horizon_of(past, before, kept)
        after: tuple[int | str, ...] | None = (since, 0) if past is Past.RUNS and since is not None else None
        pace = Pace()
        while True:
            checked_at = monotonic()
            found = store.scan(past, of_past, after, pace.rows)
            if found.may_go:
                asked_at = monotonic()
                yield past, store.prune(lease, past, found.may_go, of_past)
                pace = pace.after(monotonic() - asked_at)
            if not go_on(pace.rest(monotonic() - checked_at)):
                return
            if found.last is None:
                break
            after = found.last
    store.end(lease)
