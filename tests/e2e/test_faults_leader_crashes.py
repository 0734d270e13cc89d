"""kill -9 of the leader at every named point of its life: nothing lost, nothing started twice, no attempt spent."""

import itertools
import os
import signal
from collections.abc import Iterator

import pytest

from tests.support.crash_points import POINTS
from tests.support.fault_bed import FaultBed, LeaderProcess
from tests.support.processes import Child
from tests.support.redis_server import RedisServer

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.redis]

# Reached only, or soonest, at the beginning of a term: a leader that has led for a while must not be told then.
AT_ONCE = (
    "the term is taken, nothing is read",
    "taking over",
    "inbox committed, not trimmed",
    "inbox trimmed",
)
# Sent, but not known to be: the next leader sends again, and the worker sleeps until then, so that it meets both.
SENT_TWICE = ("half a batch published", "published, not marked")
LATER = tuple(point for point in POINTS if point not in AT_ONCE)


@pytest.fixture(scope="module")
def bed(
    tmp_path_factory: pytest.TempPathFactory, module_postgres_url: str, module_redis: RedisServer
) -> Iterator[FaultBed]:
    with FaultBed(tmp_path_factory.mktemp("crashes"), module_postgres_url, module_redis.url) as bed:
        yield bed.begin()


@pytest.fixture(scope="module")
def worker(bed: FaultBed) -> Child:
    return bed.worker()


@pytest.fixture(scope="module")
def waiting() -> dict[str, LeaderProcess]:
    """The leader that mended the crash before, to be killed at this point: no time is lost with a third one."""
    return {}


@pytest.mark.parametrize("point", [*LATER, *AT_ONCE])
def test_a_leader_killed_at_this_point_loses_and_doubles_nothing(
    bed: FaultBed, worker: Child, waiting: dict[str, LeaderProcess], point: str
) -> None:
    doomed = waiting.pop(point, None) or led_by(bed, point)
    if point in SENT_TWICE:
        os.killpg(worker.pid, signal.SIGSTOP)
    doomed.arm()
    bed.enqueue(6)
    doomed.at_the_point()
    following = next((later for earlier, later in itertools.pairwise(LATER) if earlier == point), None)
    rescuer = bed.leader(following)
    if following is not None:
        waiting[following] = rescuer
    assert doomed.child.wait() == -signal.SIGKILL
    if point in SENT_TWICE:
        rescuer.child.wait_for_line("runs republished")
        os.killpg(worker.pid, signal.SIGCONT)
    bed.reconcile()
    assert set(bed.endings()) == {("completed", 1)}, bed.endings()


def led_by(bed: FaultBed, point: str) -> LeaderProcess:
    """A leader that leads, or is about to and armed already."""
    doomed = bed.leader(point).wait_standing_by()
    if point in AT_ONCE:
        doomed.arm()
        bed.stop_others(doomed)
        return doomed
    bed.stop_others(doomed)
    return doomed.wait_leading()
