"""The Prometheus metrics of SLAs (`must_end_within`) and of monitors."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from scheduler_service.core.monitors.model import MonitorState
from scheduler_service.ports.sla import Judged, JudgeMeter


class SlaMetrics(JudgeMeter):
    """The counter on a registry; created once per registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._judged = Counter(
            "scheduler_sla_total", "Runs with an SLA, by whether they met it", ["outcome"], registry=registry
        )
        for outcome in ("kept", "missed"):
            self._judged.labels(outcome)
        self._monitors = Gauge(
            "scheduler_monitors", "Monitors by state, as the leader knows", ["state"], registry=registry
        )
        self.monitored({})

    def judged(self, found: Judged) -> None:
        self._judged.labels("kept").inc(found.kept)
        self._judged.labels("missed").inc(found.missed)

    def monitored(self, counts: Mapping[MonitorState, int]) -> None:
        for state in MonitorState:
            if state is not MonitorState.LATE:
                self._monitors.labels(state.value).set(counts.get(state, 0))
