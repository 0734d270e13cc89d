"""A user's own Celery app. It knows this product by one line, `workers.attach(app)`.

Its task writes what really happened to a file of its own, one line a start and one an end, synced to disk: the truth
that the database's history is held against.
"""

import json
import os
import time

from celery import Celery

import workers

app = Celery("recording", broker=os.environ["ITINERARY_REDIS_URL"])
workers.attach(app)


def record(**facts: object) -> None:
    line = json.dumps(facts) + "\n"
    file = os.open(os.environ["RECORD_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
        os.fsync(file)
    finally:
        os.close(file)


@app.task(name="recording.note", bind=True)
def note(self, seconds: float = 0) -> str:
    record(event="start", task_id=self.request.id, at=time.time())
    if seconds:
        time.sleep(seconds)
    record(event="end", task_id=self.request.id, at=time.time())
    return "noted"


@app.task(name="recording.explode", bind=True)
def explode(self) -> None:
    record(event="start", task_id=self.request.id, at=time.time())
    raise RuntimeError("this task always fails")
