"""The Prometheus metrics of balanced placement, under their public names."""

from typing import Final, Literal, assert_never

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from scheduler_service.core.balancing.distribution import Distribution
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.ports.placement import PlacementMeter

_FINE: Final = (0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.01, 0.1, 1.0)


class PlacementMetrics(PlacementMeter):
    """Placement metrics, created once per registry; `count` takes the loop's counts, `show` its last distribution."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._score = Gauge("scheduler_distribution_score", "Evenness of the coming day", registry=registry)
        self._hours = Gauge("scheduler_slot_job_count", "Runs in each hour (UTC)", ["hour"], registry=registry)
        self._peak = Gauge("scheduler_peak_hour_job_count", "Runs in the fullest hour", registry=registry)
        self._placements = Counter(
            "scheduler_placements_total", "Places given to balanced jobs", ["type"], registry=registry
        )
        self._duration = Histogram(
            "scheduler_placement_duration_seconds", "Time to find one place", buckets=_FINE, registry=registry
        )
        self._rebalances = Counter("scheduler_rebalance_total", "Rebalances carried out", registry=registry)
        self._moved = Gauge("scheduler_rebalance_jobs_moved", "Jobs moved by the last rebalance", registry=registry)
        self._skipped = Gauge("scheduler_rebalance_jobs_skipped", "Jobs skipped by the last one", registry=registry)
        self._shown: Distribution | None = None

    def placed(self, count: int, seconds: float) -> None:
        for _ in range(count):
            self._duration.observe(seconds / count)

    def count(self, name: Literal["placed", "rebalanced"], label: str, number: int) -> None:
        """Add one of the loop's counts about placement; an undo is not a rebalance."""
        match name:
            case "placed":
                self._placements.labels(label).inc(number)
            case "rebalanced":
                self._rebalances.inc(number if label == "rebalance" else 0)
            case _:
                assert_never(name)

    def forget(self) -> None:
        """Reset the distribution: another leader reports it now."""
        self._score.set(0)
        self._peak.set(0)
        self._hours.clear()
        self._shown = None

    def show(self, state: SchedulerState) -> None:
        """Show the distribution that the loop saw last."""
        if state.placing.rebalanced is not None:
            self._moved.set(state.placing.rebalanced[0])
            self._skipped.set(state.placing.rebalanced[1])
        seen = state.placing.distribution
        if seen is None or seen is self._shown:
            return
        self._shown = seen
        hours = seen.hours
        self._score.set(seen.score)
        self._peak.set(max(hours))
        for hour, number in enumerate(hours):
            self._hours.labels(str(hour)).set(number)
