"""Many jobs due at one second: from that second until the last message is in Redis, its row committed before.

Beside Celery beat, celery-redbeat and APScheduler 3 with as many entries on the same Redis, one after the other. A peer
that is not done within its bound counts by its rate until then: its whole time is that much or more.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.benchmarks.bed import QUEUE, Bed, crons_at, usage
from tests.benchmarks.burst_peers import PEERS, measured
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.plots import against_n

NUMBERS: Final = (1_000, 4_000, 10_000, 100_000)
PEERS_UP_TO: Final = 4_000
TARGETS: Final = {10_000: 1.5}
TIMES_FASTER: Final = {"RedBeat": 10, "beat": 200}


@dataclass(frozen=True, slots=True)
class Burst:
    """Seconds from due to the last message in Redis, and the CPU seconds of the leader and the database meanwhile."""

    seconds: float
    leader_cpu: float
    database_cpu: float


def figures(asked: Asked) -> Iterator[Figure]:
    """Ours at every N; the peers up to the N at which they take minutes."""
    numbers = (300,) if asked.quick else NUMBERS
    with Bed() as bed:
        for number in numbers:
            asked.say(f"  {number:,} jobs due at one second")
            ours = burst(bed, number)
            asked.point("burst, s: Itinerary", number, ours.seconds)
            yield Figure(f"{number:,} due at one second, until the last is in Redis", ours.seconds, "s",
                         target=TARGETS.get(number))  # fmt: skip
            yield Figure("  the leader's CPU for each", 1e6 * ours.leader_cpu / number, "us")
            yield Figure("  the database's CPU for each", 1e6 * ours.database_cpu / number, "us")
            if number <= PEERS_UP_TO:
                yield from _beside(asked, bed, number, ours.seconds)
    if asked.plots:
        title = "From due until the last message is in Redis"
        against_n(asked.plots / "burst.svg", title, "seconds", asked.kept("burst"))


def burst(bed: Bed, number: int) -> Burst:
    """A leader with `number` crons of one second, and what happens at that second."""
    with bed.scene(ITINERARY_PUBLISH_WINDOW="1000000") as scene:
        # The rows are made ten seconds ahead: by then the leader leads.
        due = math.ceil(time.time() + 22 + number / 2_500)
        scene.fill(crons_at(number, due))
        leader = scene.start_leader()
        assert time.time() < due - 10, f"the leader was not ready in time\n{scene.said}"
        time.sleep(max(0, due - 0.5 - time.time()))
        before, database = usage(leader.pid), usage(bed.postgres.pid)
        time.sleep(max(0, due - 0.01 - time.time()))
        assert scene.length(QUEUE) == 0, "published before it was due"
        done = scene.await_length(number, 300)
        assert done is not None, scene.said
        after, database_after = usage(leader.pid), usage(bed.postgres.pid)
        moved = scene.value("SELECT count(*) FROM runs WHERE state = 'pending' AND seq > 0")
        assert (moved, scene.length()) == (number, number), "every message has its committed row, once"
        return Burst(done - due, after.cpu - before.cpu, database_after.cpu - database.cpu)


def _beside(asked: Asked, bed: Bed, number: int, ours: float) -> Iterator[Figure]:
    asked.say(f"  {number:,} entries of {', '.join(PEERS)}")
    with bed.scene() as scene:
        for name, sent, seconds in measured(scene, number):
            whole, peer = seconds * number / sent, f"{name} {PEERS[name]}"
            asked.point(f"burst, s: {name}", number, whole)
            part = "" if sent == number else f", at the rate of the {sent:,} that it sent in {seconds:.0f} s"
            least = TIMES_FASTER.get(name) if number == PEERS_UP_TO else None
            yield Figure(f"  beside {peer}, {number:,} entries{part}", ours, "s", peer=peer, peer_value=whole)
            yield Figure(f"  times as fast as {peer}", whole / ours, "times", target=least, better="higher")
