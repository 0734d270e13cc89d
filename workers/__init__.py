"""What a Celery app adopts to run under Itinerary: `workers.attach(app)`, and `current_run()` inside its tasks.

Needs Redis, not the database. Imports nothing of the scheduler but its wire names, instants and errors.
"""

from workers.attach import attach
from workers.current import CurrentRun, RunCancelled, current_run

__all__ = ["CurrentRun", "RunCancelled", "attach", "current_run"]
