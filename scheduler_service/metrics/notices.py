"""The Prometheus metrics of notifications."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from scheduler_service.ports.notices import Backlog, NoticeMeter


class NoticeMetrics(NoticeMeter):
    """The NoticeMeter port on a registry; created once per registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._tries = Counter(
            "scheduler_notifications_total", "Tries to deliver a notification", ["outcome"], registry=registry
        )
        self._waiting = Gauge("scheduler_notifications_waiting", "Notifications to be delivered", registry=registry)
        self._dead = Gauge("scheduler_notifications_dead", "Notifications that were given up", registry=registry)
        for outcome in ("sent", "failed", "dead"):
            self._tries.labels(outcome)

    def delivered(self, outcome: str) -> None:
        self._tries.labels(outcome).inc()

    def backlogged(self, backlog: Backlog) -> None:
        self._waiting.set(backlog.waiting)
        self._dead.set(backlog.dead)
