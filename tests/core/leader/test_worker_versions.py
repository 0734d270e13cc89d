"""The version and the start of a worker, as its heartbeats tell them: in the leader's figures and in samples."""

from itinerary.protocol.instants import HOUR, SECOND, format_instant
from scheduler_service.core.leader.queries import statistics
from tests.support.world import World


def test_a_worker_s_version_and_start_reach_figures_and_samples_and_an_older_worker_tells_none() -> None:
    world = World()
    since = format_instant(world.now - HOUR)
    listed = {"running": [], "received": [], "concurrency": 4, "queues": ["q"], "generation": world.workers.epoch}
    world.tell("heartbeat", worker="w2", version="1.2", since=since, **listed)
    world.advance(2 * SECOND)
    told = {
        worker["name"]: (worker["version"], worker["since"]) for worker in statistics(world.state, world.now)["workers"]
    }
    assert told == {"w1": (None, None), "w2": ("1.2", since)}
    assert world.meter.samples.take_sample(world.now, 1).worker_versions == ("1.2",)
