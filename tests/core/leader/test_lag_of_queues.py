"""The lag of each queue in the leader's statistics: one that is behind hides no other."""

from itinerary.protocol.instants import MINUTE, SECOND, format_instant
from scheduler_service.core.leader.queries import oldest_due, statistics
from tests.support.world import World


def test_each_queue_has_the_run_that_waits_longest_in_it() -> None:
    world = World()
    world.workers.listening = False
    began = world.now
    world.enqueue(queue="nobody")
    world.enqueue(queue="nobody")
    world.advance(MINUTE)
    world.enqueue(queue="mail")
    world.enqueue(after=MINUTE, queue="later")
    world.advance(SECOND)
    seen = statistics(world.state, world.now)
    due = {queue["name"]: (queue["pending"], queue["oldest_due_at"]) for queue in seen["queues"]}
    assert due["nobody"] == (2, format_instant(began))
    assert due["mail"] == (1, format_instant(began + MINUTE))
    assert due.get("later", (0, None)) == (0, None)
    assert seen["oldest_due_at"] == format_instant(began) == format_instant(oldest_due(world.state, world.now) or 0)
