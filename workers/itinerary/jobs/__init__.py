"""Jobs as code, beside the tasks: decorators that declare jobs, and `collect`, which finds the jobs of a Celery app.

Promises that declaring costs an app nothing: it loads no Celery, evaluates no task and contacts nothing. Schedules are
judged by the service.
"""

from itinerary.jobs import schedule
from itinerary.jobs.body import Body, placed
from itinerary.jobs.collecting import collect

__all__ = ["Body", "collect", "placed", "schedule"]
