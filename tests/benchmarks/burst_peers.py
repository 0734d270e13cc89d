"""The schedulers that the suite `burst` is measured beside, each as its own process, with N entries due at one second.

`python -m tests.benchmarks.burst_peers NAME N SECOND`: beat and RedBeat as Celery's own `beat` service with its default
settings, APScheduler with its default thread pool. None of them has a worker; all send the same task to one queue.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from celery import Celery
from celery.schedules import crontab

from tests.benchmarks.bed import Scene, usage

PEERS: Final = {
    "beat": version("celery"),
    "RedBeat": version("celery-redbeat"),
    "APScheduler": version("apscheduler"),
}
TASK: Final = "itinerary.echo"
WITHIN: Final = {"APScheduler": 25, "RedBeat": 50, "beat": 60}
_URL: Final = "ITINERARY_REDIS_URL"


def measured(scene: Scene, number: int) -> Iterator[tuple[str, int, float]]:
    """By name: how many it sent, and in how many seconds from the instant they were due; all of them, or what it sent
    within its bound. All load and wait together, and fall due one after the other.

    beat's and RedBeat's instants are whole minutes, since their crontabs know no seconds.
    """
    minute = 60 * (int(time.time() + 50 + number / 200) // 60 + 1)
    dues = {"APScheduler": minute - 30, "RedBeat": minute, "beat": minute + 60}
    words = ("-m", "tests.benchmarks.burst_peers")
    children = {name: scene.start(*words, name, str(number), str(due)) for name, due in dues.items()}
    for name, due in dues.items():
        child, queue, bound = children[name], _queue(name), due + WITHIN[name]
        child.wait_for_line("ready", minute - 38 - time.time())
        time.sleep(max(0, due - 0.01 - time.time()))
        assert scene.length(queue) == 0, f"{name} sent before it was due\n{child.output[-3000:]}"
        done = scene.await_length(number, bound - time.time(), queue)
        sent, at = (number, done) if done else (scene.length(queue), time.time())
        child.kill()
        assert sent, f"{name} sent nothing\n{child.output[-3000:]}"
        yield name, sent, at - due


def idle(scene: Scene, number: int, seconds: float) -> Iterator[tuple[str, float, float]]:
    """By name: memory (MB) and CPU (percent) of beat and APScheduler with entries that are due in 12 hours."""
    words = ("-m", "tests.benchmarks.burst_peers")
    due = str(int(time.time()) + 43_200)
    children = {name: scene.start(*words, name, str(number), due) for name in ("beat", "APScheduler")}
    for child in children.values():
        child.wait_for_line("ready", 120)
    time.sleep(10 + number / 1_000)  # beat prepares its file after that
    before = {name: usage(child.pid) for name, child in children.items()}
    time.sleep(seconds)
    for name, child in children.items():
        after = usage(child.pid)
        yield name, after.rss / 1e6, 100 * (after.cpu - before[name].cpu) / seconds


def main(name: str, number: int, due: float) -> None:
    """Be that scheduler until ended."""
    {"beat": _beat, "RedBeat": _redbeat, "APScheduler": _apscheduler}[name](number, due)


def _queue(name: str) -> str:
    return f"peers-{name}"


def app_of(name: str) -> Celery:
    """An app that sends to a queue of this peer's own."""
    app = Celery("peers", broker=os.environ[_URL])
    app.conf.update(enable_utc=True, timezone="UTC", task_ignore_result=True, task_default_queue=_queue(name))
    return app


def _at(due: float) -> Any:
    moment = time.gmtime(due)
    return crontab(minute=str(moment.tm_min), hour=str(moment.tm_hour))


def _beat(number: int, due: float) -> None:
    app, schedule = app_of("beat"), _at(due)
    app.conf.beat_schedule = {f"job-{n:07d}": {"task": TASK, "schedule": schedule} for n in range(number)}
    with tempfile.TemporaryDirectory(prefix="itinerary-bench-") as folder:
        beat = app.Beat(schedule=str(Path(folder) / "schedule"), loglevel="WARNING")
        print("ready", flush=True)
        beat.run()


def _redbeat(number: int, due: float) -> None:
    from redbeat import RedBeatSchedulerEntry

    app, schedule = app_of("RedBeat"), _at(due)
    app.conf.redbeat_redis_url = os.environ[_URL]
    for n in range(number):
        RedBeatSchedulerEntry(f"job-{n:07d}", TASK, schedule, app=app).save()
    print("ready", flush=True)
    app.Beat(scheduler="redbeat.RedBeatScheduler", loglevel="WARNING", max_interval=5).run()


def _apscheduler(number: int, due: float) -> None:
    from apscheduler.schedulers.background import BackgroundScheduler

    app, at = app_of("APScheduler"), datetime.fromtimestamp(due, UTC)
    when = {"hour": at.hour, "minute": at.minute, "second": at.second}
    scheduler = BackgroundScheduler(timezone=UTC, job_defaults={"misfire_grace_time": None})
    for n in range(number):
        scheduler.add_job(app.send_task, "cron", (TASK,), id=f"job-{n:07d}", **when)
    scheduler.start()
    print("ready", flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
