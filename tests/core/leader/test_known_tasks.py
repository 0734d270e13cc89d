"""The tasks that living workers know, as the leader hears of them."""

from typing import Any

from itinerary.protocol.instants import MINUTE, SECOND
from scheduler_service.core.leader.messages import Query
from scheduler_service.core.leader.queries import answer, statistics
from tests.support.world import World


def heard(world: World, worker: str, tasks: Any = None, **more: Any) -> None:
    listed = {"running": [], "received": [], "concurrency": 4, "queues": ["q"], "generation": world.workers.epoch}
    world.tell("heartbeat", worker=worker, **listed, **({} if tasks is None else {"tasks": tasks}), **more)
    world.advance(SECOND)


def known(world: World) -> dict[str, Any]:
    return answer(world.state, Query("tasks", None, "r"), world.now)


def test_the_names_of_all_living_workers_are_known_until_they_are_gone() -> None:
    world = World()
    heard(world, "w1", [["a", "b"], True])
    heard(world, "w2", [["b", "c"], True], part=1)
    assert known(world) == {"tasks": ["a", "b", "c"], "complete": True}
    heard(world, "w2")
    assert known(world)["tasks"] == ["a", "b", "c"], "a heartbeat without them changes nothing"
    assert {one["name"]: one["tasks"] for one in statistics(world.state, world.now)["workers"]} == {"w1": 2, "w2": 2}
    heard(world, "w2", leaving=True)
    assert known(world) == {"tasks": ["a", "b"], "complete": True}
    world.workers.die()
    world.advance(MINUTE)
    assert known(world) == {"tasks": [], "complete": False}


def test_a_worker_of_the_release_before_may_know_more() -> None:
    world = World()
    heard(world, "w1", [["a"], True])
    heard(world, "old")
    assert known(world) == {"tasks": ["a"], "complete": False}
    heard(world, "old", [["a"], False])
    assert known(world) == {"tasks": ["a"], "complete": False}
