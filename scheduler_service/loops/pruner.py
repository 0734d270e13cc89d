"""The pruner's thread: at intervals it deletes rows older than `kept`, in small steps, while everything else continues.

Nothing waits for it: it never talks to the loop, its transactions are short, and it rests between them. A sweep goes at
most a day further than the one before, so after a long pause it catches up day by day. After a kill, the next sweep
continues with the rows that are left.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import structlog

from itinerary.protocol.errors import RowRefused, StoreUnavailable
from itinerary.protocol.instants import MINUTE, SECOND, Duration, Instant, format_instant
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


@dataclass(frozen=True, slots=True)
class Retention:
    """The pruning adapter, how long finished runs are kept, the host's clock, and the interval between sweeps."""

    store: Pruning
    kept: Duration
    host_clock: Callable[[], Instant]
    first: Duration = _FIRST
    every: Duration = _EVERY


class Pruner(Repeating):
    """One term's pruning; a sweep ends early when the leader stops or is no longer trusted."""

    def __init__(
        self, retention: Retention, renewer: LeaseRenewer, meter: Meter, on_crash: Callable[[BaseException], None]
    ) -> None:
        super().__init__("pruner", on_crash)
        self._retention = retention
        self._renewer = renewer
        self._meter = meter
        self._wait = retention.first

    def _once(self) -> None:
        if self._stopped.wait(self._wait / SECOND):
            return
        self._wait = self._retention.every
        try:
            self._show_last()
            self._sweep()
            self._show_last()
        except (StoreUnavailable, RowRefused) as exc:  # refused if the clock went back and the row is too young now
            log.warning("pruning put off", error=str(exc))

    def _show_last(self) -> None:
        ended_at = self._retention.store.last_sweep().ended_at
        if ended_at is not None:
            self._meter.swept(ended_at)

    def _sweep(self) -> None:
        store, kept = self._retention.store, self._retention.kept
        before = next_horizon(store.needs(), self._retention.host_clock(), kept)
        if before is None:
            return
        began, gone = monotonic(), Counter[str]()
        for past, rows in sweep(store, self._renewer.lease, before, kept, self._may_go_on):
            gone[past] += rows
            self._meter.pruned(past, rows)
        if gone.total():
            seconds = round((monotonic() - began) / SECOND, 1)
            log.info("history pruned", before=format_instant(before), seconds=seconds, **gone)

    def _may_go_on(self, rest: Duration) -> bool:
        return not self._stopped.wait(rest / SECOND) and self._renewer.trusted()


def sweep(
    store: Pruning, lease: Lease | None, before: Instant, kept: Duration, go_on: Callable[[Duration], bool]
) -> Iterator[tuple[Past, int]]:
    """Delete rows that ended before `before`; yield the table and the number of rows of each committed transaction.

    `go_on` waits for the given time and returns whether to continue; otherwise the sweep ends unfinished.
    """
    store.begin(lease, before)  # even if nothing is found: the next sweep starts there
    for past in Past:
        of_past = horizon_of(past, before, kept)
        after, pace = None, Pace()
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
