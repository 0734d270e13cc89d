"""The Prometheus metric of calendars that are refreshed."""

from prometheus_client import CollectorRegistry, Gauge


class CalendarMetrics:
    """Created once per registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        name, meaning = (
            "scheduler_calendar_feeds_failing",
            "Files of calendars that could not be taken when last asked for",
        )
        self._failing = Gauge(name, meaning, registry=registry)

    def failing(self, feeds: int) -> None:
        """Show how many fail now; 0 where another process leads."""
        self._failing.set(feeds)
