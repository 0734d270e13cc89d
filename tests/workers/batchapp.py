"""A Celery app with a task class that has its own way with messages, in the manner of celery-batches."""

import os
from pathlib import Path
from typing import Any

from celery import Celery, Task

import itinerary

app = Celery("batchapp", broker=os.environ["USERAPP_BROKER"])
app.conf.task_default_queue = "default"


def collecting(task: Any, app: Celery, consumer: Any, **_: Any) -> Any:
    """A strategy without a tracer: it does the work where the message is taken."""

    def handle(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any, **_: Any) -> None:
        with Path(os.environ["TRUTH"]).open("a") as truth:
            truth.write(f"collected {message.headers['id']}\n")
        message.ack()

    return handle


class Batches(Task):
    """All that matters of celery-batches here."""

    abstract = True
    Strategy = "tests.workers.batchapp:collecting"


@app.task(name="bat.collect", base=Batches, shared=False)
def collect(requests: Any) -> None:
    raise AssertionError("its strategy does the work")


@app.task(name="bat.plain", shared=False)
def plain() -> str:
    return "done"


if os.environ.get("FINAL"):

    class Final(Task):
        """A class that suffers no other below those of its tasks."""

        abstract = True

        def __init_subclass__(cls) -> None:
            if "run" not in vars(cls):
                raise TypeError("this class is final")

    @app.task(name="bat.final", base=Final, shared=False)
    def final() -> None:
        raise AssertionError("its worker does not start")


itinerary.attach(app, exclude=["bat.collect"] if os.environ.get("EXCLUDE") else [])

if os.environ.get("LATE"):

    @app.task(name="bat.late", base=Batches, shared=False)
    def late(requests: Any) -> None:
        raise AssertionError("its strategy does the work")
