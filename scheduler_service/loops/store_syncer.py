"""The run syncer: the only thread that writes runs for the leader, in the order that the loop decided.

A database that is away is waited for as long as the lease is trusted; a row that it will never take is set aside.
"""

import threading
from collections.abc import Callable
from typing import Any, assert_never

import structlog

from scheduler_service.core.effects import (
    Apply,
    MakeRuns,
    MoveRuns,
    ReadCancels,
    ReadDue,
    ReadJobs,
    ReadRuns,
    RecordStatistics,
    Republish,
    StoreEffect,
)
from scheduler_service.core.errors import LeaseLost, RowRefused, StoreUnavailable
from scheduler_service.core.feedback import (
    Applied,
    CancelsRead,
    DueRead,
    JobsRead,
    RunsMade,
    RunsMoved,
    RunsRead,
    RunsRenewed,
)
from scheduler_service.core.instants import Instant
from scheduler_service.core.placements import JobsPlaced, PlaceJobs, ReadRebalance, RebalanceRead
from scheduler_service.loops.effect_thread import EffectThread
from scheduler_service.loops.lease_keeper import LeaseKeeper
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.loops.placement_log import log_placed
from scheduler_service.ports.stores import LeaderStore

log = structlog.get_logger(__name__)

_MOST_TRANSITIONS = 2000
_MOST_MOVES = 500


class StoreSyncer:
    """Carries out StoreEffects and reports what came of them."""

    def __init__(
        self,
        store: LeaderStore,
        keeper: LeaseKeeper,
        mailbox: Mailbox,
        since: Instant | None,
        stopping: threading.Event,
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._store = store
        self._keeper = keeper
        self._mailbox = mailbox
        self._since = since
        self._stopping = stopping
        self.thread: EffectThread[StoreEffect] = EffectThread("run-syncer", self.carry_out, on_crash)

    def carry_out(self, effects: list[StoreEffect]) -> None:
        """Do these, in order; returns when all are done."""
        for effect in merged(effects):
            self._until_done(effect)

    def _until_done(self, effect: StoreEffect) -> None:
        delay = 0.05
        while True:
            if not self._keeper.trusted():
                raise LeaseLost(f"term {self._keeper.lease.term} is not confirmed any more")
            try:
                return self._do(effect)
            except RowRefused as exc:
                log.error("row set aside", effect=type(effect).__name__, error=str(exc))
                return None
            except StoreUnavailable as exc:
                if isinstance(effect, RecordStatistics):
                    return None
                log.warning("database away, trying again", effect=type(effect).__name__, error=str(exc))
            self._stopping.wait(delay)
            delay = min(delay * 2, 1.0)

    def _do(self, effect: StoreEffect) -> None:
        store, lease, put = self._store, self._keeper.lease, self._mailbox.put
        match effect:
            case MakeRuns():
                existing = store.make_runs(lease, effect)
                if existing:
                    put(RunsMade(existing))
            case MoveRuns(releases=releases):
                moved = store.move_runs(lease, releases, self._keeper.now())
                log.info("runs released", count=len(moved.released), refused=len(moved.refused), term=lease.term)
                put(RunsMoved(moved.released, moved.refused))
            case Republish(releases=releases, cause=cause):
                renewed = store.renew_publish(lease, releases)
                log.info("runs republished", count=len(renewed.released), cause=cause, term=lease.term)
                put(RunsRenewed(renewed.released, renewed.refused, cause))
            case Apply():
                put(Applied(effect, store.apply(lease, effect)))
            case ReadRuns(run_ids=run_ids):
                put(RunsRead(run_ids, tuple(store.read_runs(run_ids))))
            case ReadDue(until=until, limit=limit, asked_for=asked_for):
                due = tuple(store.due_runs(until, limit, asked_for=asked_for))
                put(DueRead(due, full=asked_for and len(due) >= limit))
            case ReadCancels(limit=limit):
                requests = tuple(store.cancel_requests(limit))
                if requests:
                    put(CancelsRead(requests))
            case ReadJobs(job_ids=job_ids):
                put(JobsRead(tuple(store.histories_of(job_ids, self._since))))
            case PlaceJobs():
                placed = JobsPlaced(effect, store.place_jobs(lease, effect))
                log_placed(placed)
                put(placed)
            case ReadRebalance(asked=asked):
                put(RebalanceRead(asked, store.last_rebalance()))
            case RecordStatistics():
                store.record_statistics(effect)
            case _:
                assert_never(effect)


def merged(effects: list[StoreEffect]) -> list[StoreEffect]:
    """The same effects in fewer transactions: neighbouring Applies are one, and so are neighbouring MoveRuns.

    Moves are put behind the Applies after them: those say nothing of a run whose move is under way.
    """
    out: list[StoreEffect] = []
    moves: list[MoveRuns] = []
    for effect in effects:
        if isinstance(effect, MoveRuns):
            _join(moves, effect)
        elif isinstance(effect, Apply):
            _join(out, effect)
        else:
            out += [*moves, effect]
            moves.clear()
    return [*out, *moves]


def _join(out: list[Any], effect: Apply | MoveRuns) -> None:
    last = out[-1] if out else None
    match last, effect:
        case Apply(), Apply() if len(last.transitions) + len(effect.transitions) <= _MOST_TRANSITIONS:
            out[-1] = Apply(
                last.transitions + effect.transitions,
                last.published + effect.published,
                last.late + effect.late,
                last.cancels + effect.cancels,
                effect.position or last.position,
                effect.judged_until if effect.judged_until is not None else last.judged_until,
            )
        case MoveRuns(), MoveRuns() if len(last.releases) + len(effect.releases) <= _MOST_MOVES:
            out[-1] = MoveRuns(last.releases + effect.releases)
        case _:
            out.append(effect)
