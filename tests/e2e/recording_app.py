"""A user's own Celery app. It knows this product by one line, `itinerary.attach(app)`.

Its tasks record what really happened: the truth that the database's history is held against.
"""

import os
import time

from celery import Celery

import itinerary
from tests.support.recording import record

app = Celery("recording", broker=os.environ.get("BROKER_OF_APP") or os.environ["ITINERARY_REDIS_URL"])
if "MASTER_NAME" in os.environ:
    app.conf.broker_transport_options = {"master_name": os.environ["MASTER_NAME"]}
itinerary.attach(app)


@app.task(name="recording.note", bind=True)
def note(self, seconds: float = 0, gate: str = "") -> str:
    """Takes so many seconds, and as long as there is no file `gate`."""
    record("start", self.request.id)
    if seconds:
        time.sleep(seconds)
    while gate and not os.path.exists(gate):
        time.sleep(0.02)
    record("end", self.request.id)
    return "noted"


@app.task(name="recording.time", bind=True)
def tell_time(self) -> str:
    record("start", self.request.id)
    time.sleep(0.1)  # two at once would be seen to be
    record("end", self.request.id)
    return itinerary.current_run().scheduled_at.isoformat()


@app.task(name="recording.explode", bind=True)
def explode(self) -> None:
    record("start", self.request.id)
    raise RuntimeError("this task always fails")
