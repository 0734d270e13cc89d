"""Jobs in a file of their own, for those who want them apart from the tasks."""

from itinerary import schedule
from orders.tasks import report

schedule.interval("1m", job_id="orders.now")(report)
