"""The network between two parts is cut, blind or slow while all others see each other."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.support.fault_bed import LOST_SECONDS, PATIENT, FaultBed
from tests.support.processes import wait_until
from tests.support.proxy import FaultProxy
from tests.support.redis_server import RedisServer

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture(scope="module")
def bed(
    tmp_path_factory: pytest.TempPathFactory, module_postgres_url: str, module_redis: RedisServer
) -> Iterator[FaultBed]:
    with FaultBed(tmp_path_factory.mktemp("network faults"), module_postgres_url, module_redis.url) as bed:
        bed.begin().worker()
        yield bed


@pytest.fixture
def database_proxy(bed: FaultBed) -> Iterator[FaultProxy]:
    with FaultProxy(make_url(bed.database_url).port or 0) as proxy:
        yield proxy


@pytest.fixture
def redis_proxy(module_redis: RedisServer) -> Iterator[FaultProxy]:
    with FaultProxy(module_redis.port) as proxy:
        yield proxy


def redis_through(proxy: FaultProxy) -> dict[str, str]:
    return {"ITINERARY_REDIS_URL": f"redis://127.0.0.1:{proxy.port}/0"}


def database_through(bed: FaultBed, proxy: FaultProxy) -> dict[str, str]:
    url = make_url(bed.database_url).set(port=proxy.port)
    return {"ITINERARY_DATABASE_URL": url.render_as_string(hide_password=False)}


def gated_run(bed: FaultBed) -> tuple[str, Path]:
    gate = bed.folder / f"gate-{time.monotonic_ns()}"
    (run_id,) = bed.enqueue(1, gate=str(gate))
    bed.started(run_id)
    return run_id, gate


def passed(seconds: float) -> None:
    ends = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > ends, seconds + 5)


def all_ended_at_once(bed: FaultBed) -> None:
    bed.reconcile()
    assert set(bed.endings()) == {("completed", 1)}, bed.endings()


def test_a_leader_cut_off_from_the_database_alone_stops_and_a_standby_that_sees_it_leads(
    bed: FaultBed, database_proxy: FaultProxy
) -> None:
    cut_off = bed.sole_leader("taking over", "hold", **database_through(bed, database_proxy))
    standby = bed.leader().wait_standing_by()
    database_proxy.become("blackhole")
    bed.enqueue(5)
    standby.wait_leading()
    cut_off.child.wait_for_line("stepped down")
    dispatched = cut_off.said("runs released")
    bed.reconcile()
    database_proxy.become("reset")
    passed(1)
    assert cut_off.said("runs released") == dispatched
    bed.stop_others(standby)
    all_ended_at_once(bed)


def test_a_leader_cut_off_from_redis_alone_keeps_the_lease_moves_runs_and_publishes_them_after(
    bed: FaultBed, redis_proxy: FaultProxy
) -> None:
    leader = bed.sole_leader("taking over", "hold", **redis_through(redis_proxy), **PATIENT)
    run_id, gate = gated_run(bed)
    redis_proxy.become("blackhole")
    (held, *_) = bed.enqueue(5)
    bed.wait_state(held, "pending")
    passed(LOST_SECONDS + 2)
    assert bed.run(held).published_at is None
    redis_proxy.become("reset")
    bed.wait_state(held, "completed")
    gate.touch()
    bed.wait_state(run_id, "completed")
    assert leader.said("took over") == 1
    all_ended_at_once(bed)


def test_a_worker_behind_a_dead_connection_finds_out_and_what_it_swallowed_is_sent_again(
    bed: FaultBed, redis_proxy: FaultProxy
) -> None:
    bed.sole_leader()
    worker = bed.worker(queues="beyond", **redis_through(redis_proxy))
    (before,) = bed.enqueue(1, queue="beyond")
    bed.wait_state(before, "completed")
    redis_proxy.become("blackhole")
    run_ids = bed.enqueue(3, queue="beyond")
    wait_until(lambda: all(bed.run(run_id).published_at for run_id in run_ids), what=lambda: bed.outputs)
    redis_proxy.become("none")  # what is open stays dead; only new connections work
    for run_id in run_ids:
        bed.wait_state(run_id, "completed")
    assert worker.running
    all_ended_at_once(bed)


def test_a_slow_redis_makes_runs_late_and_nothing_worse(bed: FaultBed, redis_proxy: FaultProxy) -> None:
    leader = bed.sole_leader("taking over", "hold", **redis_through(redis_proxy), **PATIENT)
    redis_proxy.become("delay", 0.3)
    bed.enqueue(50)
    all_ended_at_once(bed)
    assert leader.said("took over") == 1
    redis_proxy.become("none")
