"""The product's own worker app; its tasks record what they do, and come to grief at a named point, once a run.

`at`: received (before the claim), claimed (before the first line), running, ended (before the report), handed over (to
the main process, which is frozen if it is to die), reported. `whom`: the pool's child alone, or the worker's main
process, whose children the kernel kills with it.
"""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import redis
from celery import Task, signals

from itinerary.protocol.keys import Keys
from tests.support.recording import record


def mark_of(task: Any) -> str:
    """The file that exists once an attempt of this run died."""
    return f"{os.environ['RECORD_FILE']}.{str(task.request.id).rpartition('~')[0]}"


def come_to_grief(task: Any, point: str) -> None:
    """Die here if the task was told to, and no attempt of its run did."""
    told = task.request.kwargs or {}
    if told.get("at") != point:
        return
    try:
        os.close(os.open(mark_of(task), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    if told["whom"] == "main":
        os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def before_the_claim(sender: Any, **_: Any) -> None:
    come_to_grief(sender, "received")


def before_the_report(sender: Any, state: str | None, **_: Any) -> None:
    if state == "SUCCESS":  # and not a delivery whose claim was refused
        come_to_grief(sender, "ended")


def after_the_report(sender: Any, state: str | None, **_: Any) -> None:
    if state != "SUCCESS":
        return
    come_to_grief(sender, "handed over")
    if (sender.request.kwargs or {}).get("at") == "reported":
        with redis.Redis.from_url(os.environ["ITINERARY_REDIS_URL"], decode_responses=True) as client:
            while client.get(Keys().claim(sender.request.id)) != "done":
                threading.Event().wait(0.02)
        come_to_grief(sender, "reported")


# Receivers are called in the order in which they were connected; importing the app connects the product's own.
signals.task_prerun.connect(before_the_claim, weak=False)
signals.task_postrun.connect(before_the_report, weak=False)

from itinerary.worker.celery_app import app_of_environment  # noqa: E402

app = app_of_environment()
# Silence counts as a dead connection sooner than in the product, so that a test need not wait so long.
app.conf.broker_transport_options = {
    **app.conf.broker_transport_options,
    "socket_timeout": 3,
    "health_check_interval": 3,
}
signals.task_postrun.connect(after_the_report, weak=False)


class Claimed(Task):
    """Its own `before_start` comes after the claim and before the first line."""

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        come_to_grief(self, "claimed")


@app.task(name="faulty.note", bind=True)
def note(self, seconds: float = 0, gate: str | None = None) -> str:
    """Takes its time, or until the file `gate` is there."""
    record("start", self.request.id)
    time.sleep(seconds)
    while gate is not None and not Path(gate).exists():
        threading.Event().wait(0.02)
    record("end", self.request.id)
    return "noted"


@app.task(name="faulty.poison", bind=True)
def poison(self) -> None:
    """Kills its process, whatever attempt it is."""
    record("start", self.request.id)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="faulty.fall", bind=True, base=Claimed)
def fall(self, at: str, whom: str) -> str:
    """Comes to grief."""
    record("start", self.request.id)
    come_to_grief(self, "running")
    if (at, whom) == ("handed over", "main") and not Path(mark_of(self)).exists():
        os.kill(os.getppid(), signal.SIGSTOP)
    record("end", self.request.id)
    return f"survived {at} {whom}"
