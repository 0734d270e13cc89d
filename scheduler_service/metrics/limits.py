"""The Prometheus metrics of limits, by the limit's name. No label holds a key."""

from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from itinerary.protocol.instants import SECOND
from scheduler_service.core.leader.limit_use import LimitUsage, usage_of_limits
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.limits import QUEUE

_MOST_NAMES: Final = 1_000


class LimitMetrics:
    """The gauges of limits on a registry: of those in use that have most runs, a bounded number.

    `bounded_queues`: those with bounds of their own, as of the last second.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._defined = Gauge("scheduler_limits", "Limits that are defined, those of queues aside", registry=registry)
        self._in_flight, self._waiting, self._oldest = (
            Gauge(name, text, ["limit"], registry=registry)
            for name, text in (
                ("scheduler_limit_in_flight_runs", "Runs that name the limit and are dispatched and not over"),
                (
                    "scheduler_limit_waiting_runs",
                    "Due runs that name the limit and wait for room; held ones aside",
                ),
                (
                    "scheduler_limit_oldest_waiting_seconds",
                    "How long the oldest of these waits",
                ),
            )
        )
        self._shown: set[str] = set()
        self.bounded_queues: frozenset[str] = frozenset()

    def show(self, state: SchedulerState) -> None:
        """Show the present use; from slots and lanes, where limits are defined."""
        now, limits = state.last_iteration_at, state.controls.limits
        defined = [name for name in limits if not name.startswith(QUEUE)]
        self.bounded_queues = frozenset(name.removeprefix(QUEUE) for name in limits if name.startswith(QUEUE))
        self._defined.set(len(defined))
        used = usage_of_limits(state, now) if defined else {}
        names = sorted(used, key=lambda name: -_runs(used[name]))[:_MOST_NAMES]
        for name in self._shown.difference(names):
            for gauge in (self._in_flight, self._waiting, self._oldest):
                gauge.remove(name)
        for name in names:
            usage = used[name]
            self._in_flight.labels(name).set(usage.in_flight.total())
            self._waiting.labels(name).set(usage.waiting.total())
            self._oldest.labels(name).set(0 if usage.oldest is None else (now - usage.oldest) / SECOND)
        self._shown = set(names)

    def forget(self) -> None:
        """Show nothing: another leader reports it now."""
        self._defined.set(0)
        for gauge in (self._in_flight, self._waiting, self._oldest):
            gauge.clear()
        self._shown = set()


def _runs(usage: LimitUsage) -> int:
    return usage.in_flight.total() + usage.waiting.total()
