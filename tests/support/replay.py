"""A scheduler that is led through a reported situation: long stretches in wide strides, starts as texts."""

from collections.abc import Sequence
from typing import Any

from itinerary.protocol.errors import StoreUnavailable
from itinerary.protocol.identity import split_task_id
from itinerary.protocol.instants import MINUTE, SECOND, Duration
from scheduler_service.core.leader.state import CoreSettings
from tests.support.moments import at, texts
from tests.support.world import World


def world_at(text: str, stride: Duration = SECOND, **settings: Any) -> World:
    """A leader since this time; a wide `stride` (its loop interval) makes months quick and no run late."""
    wide = CoreSettings(
        loop_interval=stride,
        pre_schedule_interval=max(10 * SECOND, 2 * stride),
        index_rebuild_interval=max(MINUTE, 20 * stride),
        lookahead_window=max(10 * MINUTE, 50 * stride),
        **settings,
    )
    return World(at(text), wide)


def cron(expr: str, timezone: str = "UTC", **rules: str) -> dict[str, Any]:
    """The spec of a cron schedule."""
    return {"kind": "cron", "expr": expr, "timezone": timezone, **rules}


def starts_of(world: World, job_id: str) -> list[str]:
    """When runs of this job were started by a worker, whatever the history says."""
    ours = {run.run_id for run in world.runs(job_id)}
    return texts(moment for moment, attempt in world.workers.started if split_task_id(attempt)[0] in ours)


def beating(world: World, duration: Duration, every: Duration = 10 * SECOND) -> None:
    """Time goes by while the worker says what it runs."""
    for _ in range(duration // every):
        world.advance(every)
        world.workers.beat()
        world.reconcile()


class InDoubt:
    """A store whose answers to the named calls are lost once each: the call is committed, its caller sees an error."""

    def __init__(self, store: Any, names: Sequence[str]) -> None:
        self._store = store
        self._names = list(names)
        self.lost: list[str] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        if name not in self._names:
            return call

        def answer_lost(*args: Any) -> Any:
            call(*args)
            self._names.remove(name)
            self.lost.append(name)
            raise StoreUnavailable("the connection broke before the answer to COMMIT")

        return answer_lost
