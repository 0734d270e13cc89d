"""The Prometheus metrics of SLAs (`must_end_within`)."""

from prometheus_client import CollectorRegistry, Counter

from scheduler_service.ports.sla import Judged


class SlaMetrics:
    """The counter on a registry; created once per registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._judged = Counter(
            "scheduler_sla_total", "Runs with an SLA, by whether they met it", ["outcome"], registry=registry
        )
        for outcome in ("kept", "missed"):
            self._judged.labels(outcome)

    def judged(self, found: Judged) -> None:
        """Count runs that were judged."""
        self._judged.labels("kept").inc(found.kept)
        self._judged.labels("missed").inc(found.missed)
