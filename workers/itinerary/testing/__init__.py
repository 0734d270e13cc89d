"""A service in memory for the tests of programs that enqueue, and of tasks, with a clock that the tests move.

Promises that importing it loads no Celery. Needs `celery-itinerary` alone; for scheduled jobs `itinerary-server` too.
"""

from itinerary.testing.service import Service

__all__ = ["Service"]
