"""APScheduler 3 with N crons of every second: `python -m tests.benchmarks.precision_peer N SECONDS` prints [p50, p99].

Seconds from due until `send_task` has returned, by the instants that APScheduler itself gives its runs.
"""

import json
import sys
import threading
import time
from datetime import UTC
from typing import Any

from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.schedulers.background import BackgroundScheduler

from tests.benchmarks.burst_peers import app_of
from tests.benchmarks.time_work import percentiles


def main(number: int, seconds: float) -> None:
    """Measure and say."""
    app, lock, delays = app_of("APScheduler"), threading.Lock(), []
    scheduler = BackgroundScheduler(timezone=UTC, job_defaults={"misfire_grace_time": None})

    def done(event: Any) -> None:
        late = time.time() - event.scheduled_run_time.timestamp()
        with lock:
            delays.append(late)

    scheduler.add_listener(done, EVENT_JOB_EXECUTED)
    for n in range(number):
        scheduler.add_job(app.send_task, "cron", ("itinerary.echo",), id=f"job-{n}", second="*")
    scheduler.start()
    time.sleep(3)
    delays.clear()  # the first connection is made
    time.sleep(seconds)
    scheduler.shutdown(wait=False)
    p50, _, p99 = percentiles(list(delays))
    print(json.dumps([p50, p99]), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
