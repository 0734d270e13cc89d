"""A Celery app whose task logs very much, as its user would write it; LOGS is the argument of `attach`."""

import logging
import os
import time

from celery import Celery

import itinerary

app = Celery("logs_work", broker=os.environ["USERAPP_BROKER"])
log = logging.getLogger("bench.rows")


@app.task(name="bench.write")
def write(megabytes: int, size: int, prints: bool) -> list[float]:
    """Log or print so many megabytes in lines of this size; return seconds of CPU and of the clock."""
    line = "x" * (size - 20)
    began, cpu = time.perf_counter(), time.process_time()
    for n in range(megabytes * 1_000_000 // size):
        if prints:
            print(f"row {n:010} {line}")
        else:
            log.info("row %010d %s", n, line)
    return [time.process_time() - cpu, time.perf_counter() - began]


@app.task(name="bench.tick")
def tick(seconds: float) -> None:
    """Log the time four times a second."""
    until = time.time() + seconds
    while time.time() < until:
        log.info("at %.6f", time.time())
        time.sleep(0.25)


itinerary.attach(app, logs=os.environ["LOGS"])
