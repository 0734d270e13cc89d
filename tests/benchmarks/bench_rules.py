"""The suite `rules`: the CPU of the leader's rules alone a life, on fakes, so that a busy machine hardly shows in it.

Of several windows the least counts: the others shared their core, or its caches, with somebody.
"""

import gc
import time
from collections.abc import Iterator
from typing import Final

from structlog.testing import capture_logs

from itinerary.protocol.instants import SECOND
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.leader.commands import Command
from scheduler_service.core.leader.results import Feedback
from scheduler_service.core.leader.state import SchedulerState
from tests.benchmarks.figures import Asked, Figure
from tests.support.world import World

US: Final = 1e6
WINDOW: Final = 3


class TimedWorld(World):
    """A world that adds up the CPU seconds of its passes."""

    spent = 0.0

    def step(self, messages: list[Feedback]) -> tuple[SchedulerState, list[Command]]:
        began = time.thread_time()
        try:
            return super().step(messages)
        finally:
            self.spent += time.thread_time() - began


def figures(asked: Asked) -> Iterator[Figure]:
    """By how many runs fall due at once."""
    for number in (20,) if asked.quick else (20, 200):
        with capture_logs():
            value = _of_a_life(number, 2 if asked.quick else 6)
        yield Figure(f"CPU of the rules a life, {number} due at once", value * US, "us")


def _of_a_life(number: int, windows: int) -> float:
    world = TimedWorld()
    every = {"kind": "interval", "every": "1s"}
    for job_id in (f"job-{n:05}" for n in range(number)):
        job, _ = read_job({"job_id": job_id, "task": "demo.task", "schedule": every}, created_at=world.now)
        world.store.jobs.replace(job, None)
    world.lead(wait=SECOND)
    world.advance(WINDOW * SECOND)
    gc.collect()
    gc.disable()  # the fakes' garbage is not the leader's
    try:
        return min(_window(world) for _ in range(windows))
    finally:
        gc.enable()


def _window(world: TimedWorld) -> float:
    world.spent, before = 0.0, len(world.workers.started)
    world.advance(WINDOW * SECOND)
    return world.spent / (len(world.workers.started) - before)
