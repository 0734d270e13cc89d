"""Redis is killed, wiped, set back, frozen, full and read-only: what was accepted runs once, nothing is called lost."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fault_bed import LOST_SECONDS, PATIENT, FaultBed
from tests.support.processes import wait_until
from tests.support.redis_server import RedisServer

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture(scope="module")
def bed(
    tmp_path_factory: pytest.TempPathFactory, module_postgres_url: str, module_redis: RedisServer
) -> Iterator[FaultBed]:
    with FaultBed(tmp_path_factory.mktemp("redis faults"), module_postgres_url, module_redis.url) as bed:
        bed.begin().keep_worker()
        yield bed


@pytest.fixture
def running(bed: FaultBed) -> Iterator[tuple[str, Path]]:
    """A run that is under way when the fault comes; afterwards everything must have ended at its first attempt."""
    bed.keep_worker()
    gate = bed.folder / f"gate-{time.monotonic_ns()}"
    (run_id,) = bed.enqueue(1, gate=str(gate))
    bed.started(run_id)
    yield run_id, gate
    gate.touch()
    bed.reconcile()
    run = bed.run(run_id)
    assert (run.state, run.attempt) == ("completed", 1), bed.outputs
    assert set(bed.endings()) == {("completed", 1)}, bed.endings()


def passed(seconds: float) -> None:
    """Let the outage last."""
    ends = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > ends, seconds + 5)


@pytest.mark.usefixtures("running")
def test_a_killed_redis_that_comes_back_with_its_data_costs_nothing(bed: FaultBed, module_redis: RedisServer) -> None:
    bed.enqueue(10)
    module_redis.kill()
    bed.enqueue(10)
    module_redis.start()


@pytest.mark.usefixtures("running")
def test_a_redis_that_comes_back_empty_gets_all_that_is_pending_again_and_starts_nothing_twice(
    bed: FaultBed, module_redis: RedisServer
) -> None:
    run_ids = bed.enqueue(10, queue="unread")
    wait_until(lambda: all(bed.run(run_id).published_at for run_id in run_ids), what=lambda: bed.outputs)
    module_redis.kill()
    for path in module_redis.folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    module_redis.start()
    bed.worker(queues="unread", concurrency=1)


def test_flushing_redis_by_mistake_is_as_if_it_came_back_empty(bed: FaultBed, running: tuple[str, Path]) -> None:
    bed.enqueue(10)
    with bed.redis() as client:
        client.flushall()
    running[1].touch()
    bed.wait_state(running[0], "completed")


@pytest.mark.usefixtures("running")
def test_a_redis_set_back_to_an_older_copy_of_its_data_starts_nothing_twice(
    bed: FaultBed, module_redis: RedisServer, tmp_path: Path
) -> None:
    bed.enqueue(5)
    module_redis.kill()
    shutil.copytree(module_redis.folder, tmp_path / "copy")
    module_redis.start()
    later = bed.enqueue(5)
    bed.wait_state(later[-1], "completed")
    module_redis.kill()
    shutil.rmtree(module_redis.folder)
    shutil.copytree(tmp_path / "copy", module_redis.folder)
    module_redis.start()


@pytest.mark.usefixtures("running")
def test_while_redis_is_frozen_the_leader_keeps_its_lease_and_calls_nothing_lost(
    bed: FaultBed, module_redis: RedisServer
) -> None:
    bed.sole_leader("taking over", "hold", **PATIENT)
    term = bed.term()
    module_redis.freeze()
    bed.enqueue(3, tell=False)
    passed(LOST_SECONDS + 2)
    module_redis.thaw()
    assert bed.term() == term


@pytest.mark.usefixtures("running")
def test_a_full_redis_that_refuses_writes_leaves_runs_pending_until_there_is_room(bed: FaultBed) -> None:
    with bed.redis() as client:
        client.config_set("maxmemory", "1")
        (held, *_) = bed.enqueue(5)
        bed.wait_state(held, "pending")
        passed(2)
        assert bed.run(held).started_at is None
        client.config_set("maxmemory", "0")


@pytest.mark.usefixtures("running")
def test_a_redis_that_became_read_only_leaves_runs_pending_until_it_is_writable(bed: FaultBed) -> None:
    with bed.redis() as client:
        client.replicaof("127.0.0.1", "1")
        (held, *_) = bed.enqueue(5)
        bed.wait_state(held, "pending")
        passed(2)
        assert bed.run(held).started_at is None
        client.replicaof("no", "one")


@pytest.mark.usefixtures("running")
def test_every_connection_to_redis_cut_ten_times_costs_nothing(bed: FaultBed) -> None:
    for _ in range(10):
        bed.enqueue(2)
        with bed.redis() as client:
            client.client_kill_filter(skipme=True, _type="normal")
        passed(0.2)


def test_a_redis_that_may_evict_is_reported_by_the_leader(bed: FaultBed) -> None:
    with bed.redis() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        leader = bed.leader().wait_standing_by()
        bed.stop_others(leader)
        leader.child.wait_for_line("set maxmemory-policy noeviction")
        client.config_set("maxmemory-policy", "noeviction")
    bed.reconcile()
