"""The present use of limits, as the leader knows it: runs in flight and waiting, by limit and by key. Reads only.

Counts what the leader holds in memory; more may wait in the database.
"""

from collections import Counter
from typing import Any, Final

from itinerary.protocol.instants import Instant
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.run_state import WAITING, RunState

MOST_WAITING: Final = 1_000
_MOST_KEYS: Final = 20
_IN_FLIGHT: Final = frozenset({RunState.PENDING, RunState.RUNNING})


def limit_uses(state: SchedulerState, now: Instant) -> list[dict[str, Any]]:
    """Each limit that a run in flight or a waiting run names, with its busiest keys."""
    in_flight: dict[str, Counter[str | None]] = {}
    waiting: dict[str, Counter[str | None]] = {}
    for run in state.runs:
        if run.limits:
            is_waiting = run.state in WAITING and run.due_at <= now
            counts = in_flight if run.state in _IN_FLIGHT else waiting if is_waiting else None
            if counts is not None:
                for name, key in run.limits:
                    counts.setdefault(name, Counter())[key] += 1
    names = sorted(in_flight.keys() | waiting.keys())
    return [_use(name, in_flight.get(name, Counter()), waiting.get(name, Counter())) for name in names]


def _use(name: str, in_flight: Counter[str | None], waiting: Counter[str | None]) -> dict[str, Any]:
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
