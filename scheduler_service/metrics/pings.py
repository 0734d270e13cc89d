"""The Prometheus metrics of pings."""

from prometheus_client import CollectorRegistry, Counter

from scheduler_service.ports.pings import PingMeter


class PingMetrics(PingMeter):
    """The PingMeter port on a registry; created once per registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._tries = Counter("scheduler_pings_total", "Tries to send a job's ping", ["outcome"], registry=registry)
        for outcome in ("sent", "failed", "dead"):
            self._tries.labels(outcome)

    def pinged(self, outcome: str) -> None:
        self._tries.labels(outcome).inc()
