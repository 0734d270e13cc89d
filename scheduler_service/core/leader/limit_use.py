"""The present use of limits, as the leader knows it: runs in flight and waiting, by limit and by key. Reads only.

Counts what the leader holds in memory; more may wait in the database. Reads slots and lanes, never all runs: a million
may be planned.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from itinerary.protocol.instants import Instant
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.leader.frozen import freeze_of
from scheduler_service.core.leader.job_states import is_paused
from scheduler_service.core.leader.limiting import slots_taken
from scheduler_service.core.leader.parts.rates import RatedUse
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.limits import QUEUE
from scheduler_service.core.policies import could_go_since
from scheduler_service.core.run_state import WAITING

MOST_WAITING: Final = 1_000
_MOST_KEYS: Final = 20


@dataclass(slots=True)
class LimitUsage:
    """Runs that name a limit, by their keys; `oldest`: since when one waits."""

    in_flight: Counter[str | None] = field(default_factory=Counter)
    waiting: Counter[str | None] = field(default_factory=Counter)
    oldest: Instant | None = None


def usage_of_limits(state: SchedulerState, now: Instant) -> Mapping[str, LimitUsage]:
    """The use of each limit that a run in flight names, or a due one that nothing else holds back."""
    used: dict[str, LimitUsage] = {}
    for use, count in state.slots.counts():
        if not use.name.startswith(QUEUE):
            used.setdefault(use.name, LimitUsage()).in_flight[use.key] = count - state.hand_overs.paired(use)
    for limits, since in _waiting(state, now):
        dated = [at for at in since if at is not None]
        for name, key in limits:
            usage = used.setdefault(name, LimitUsage())
            usage.waiting[key] += len(since)
            if dated:
                usage.oldest = min(dated) if usage.oldest is None else min(usage.oldest, *dated)
    return used


def _waiting(state: SchedulerState, now: Instant) -> Iterator[tuple[tuple[LimitUse, ...], list[Instant | None]]]:
    """Of each lane with limits, since when its runs wait: without those that are held or were ended meanwhile."""
    held_queues, is_frozen = frozenset(state.controls.held_queues(now)), bool(state.controls.holding(now))
    dispatching, get = state.dispatches.in_progress, state.runs.get
    for queue, lanes in state.dispatches.waiting.items():
        for lane in () if queue in held_queues else lanes.all():
            if not lane.limits:
                continue
            since = [
                could_go_since(run)
                for run_id in {run_id for _, _, run_id in lane.runs}
                if (run := get(run_id)) is not None
                and run.state in WAITING
                and run.due_at <= now
                and run_id not in dispatching
                and not (run.job_id is not None and is_paused(state, run, now))
                and not (is_frozen and freeze_of(state, run, now) is not None)
            ]
            if since:
                yield lane.limits, since


def is_full(state: SchedulerState, queue: str) -> bool:
    """Whether the queue's own limit has no room."""
    limit = state.controls.limits.get(QUEUE + queue)
    if limit is None:
        return False
    use, bounds = LimitUse(limit.name), limit.bounds
    is_at_most = bounds.concurrency is not None and slots_taken(state, limit, use) >= bounds.concurrency
    return is_at_most or (bounds.rate is not None and state.rates.room(RatedUse(use, bounds.rate)) <= 0)


def limit_uses(state: SchedulerState, now: Instant) -> list[dict[str, Any]]:
    """Each limit that is in use as JSON, with its busiest keys."""
    return [_use(name, usage) for name, usage in sorted(usage_of_limits(state, now).items())]


def _use(name: str, usage: LimitUsage) -> dict[str, Any]:
    in_flight, waiting = usage.in_flight, usage.waiting
    waits = waiting.total()
    keys = (key for key in in_flight.keys() | waiting.keys() if key is not None)
    busiest = sorted(keys, key=lambda key: (-in_flight[key], -waiting[key], key))[:_MOST_KEYS]
    return {
        "name": name,
        "in_flight": in_flight.total(),
        "waiting": min(waits, MOST_WAITING),
        "waiting_is_exact": waits <= MOST_WAITING,
        "busiest_keys": [
            {"key": key, "in_flight": in_flight[key], "waiting": min(waiting[key], MOST_WAITING)} for key in busiest
        ],
    }
