"""kill -9 of a leader on SQLite: one file, two leaders, and nothing lost, doubled or spent."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fault_bed import FaultBed
from tests.support.redis_server import RedisServer

pytestmark = [pytest.mark.e2e, pytest.mark.redis]


@pytest.fixture(scope="module")
def bed(
    tmp_path_factory: pytest.TempPathFactory, _sqlite_template: Path, module_redis: RedisServer
) -> Iterator[FaultBed]:
    folder = tmp_path_factory.mktemp("sqlite faults")
    for part in _sqlite_template.parent.glob("template.db*"):
        shutil.copy(part, folder / part.name)
    with FaultBed(folder, f"sqlite:///{folder}/template.db", module_redis.url) as bed:
        bed.begin().worker()
        yield bed


@pytest.mark.parametrize(
    "point", ["moving runs, before COMMIT", "runs moved, not published", "inbox read, before COMMIT"]
)
def test_a_leader_on_sqlite_killed_at_this_point_loses_and_doubles_nothing(bed: FaultBed, point: str) -> None:
    doomed = bed.sole_leader(point)
    doomed.arm()
    bed.enqueue(6)
    doomed.at_the_point()  # alone until then: on a starved machine a standby could replace it
    assert doomed.child.wait() == -signal.SIGKILL
    bed.leader().wait_leading()
    bed.reconcile()
    assert set(bed.endings()) == {("completed", 1)}, bed.endings()
