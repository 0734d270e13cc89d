"""Limits and lanes as the stores keep them: with each run, and in the leader's controls."""

from dataclasses import replace

import pytest

from itinerary.protocol.instants import SECOND
from itinerary.protocol.limits import LimitUse, lane_of
from scheduler_service.core.controls import Controls
from scheduler_service.core.leader.commands import CreateRuns
from scheduler_service.core.limits import Bounds, Limit, Rate
from scheduler_service.sql.control_tables import limits, queues
from scheduler_service.sql.controls import raise_version
from scheduler_service.sql.limit_rows import limit_values
from tests.support.store_bed import StoreBed, one_off

TENANT = Limit(
    "tenant", Bounds(2, Rate(90, 10 * SECOND)), per_key=True, overrides={"acme": Bounds(20)}, description="each of them"
)
USES = (LimitUse("tenant", "acme"), LimitUse("api"))


@pytest.mark.parametrize(
    ("limits", "fair_key", "job_id", "lane"),
    [
        ((), None, None, ""),
        ((), None, "nightly", "job:nightly"),
        ((), "acme", "nightly", "key:acme"),
        ((LimitUse("api"),), None, "nightly", "job:nightly"),
        ((LimitUse("b"), LimitUse("api")), None, None, 'limits:[["api",null],["b",null]]'),
        ((LimitUse("b", "1"), LimitUse("api"), LimitUse("a", "ü")), "acme", None, 'limits:[["a","ü"],["b","1"]]'),
    ],
)
def test_a_lane_is_that_of_the_keys_then_of_the_fair_key_then_of_the_job_then_of_all_limits(
    limits: tuple[LimitUse, ...], fair_key: str | None, job_id: str | None, lane: str
) -> None:
    assert lane_of(limits, fair_key, job_id) == lane


def test_a_run_keeps_its_limits_and_its_lane(bed: StoreBed) -> None:
    lease = bed.lead()
    limited = replace(one_off(lease.now), limits=USES, lane=lane_of(USES))
    plain = one_off(lease.now)
    bed.leader.create_runs(lease, CreateRuns((limited, plain), cursor=lease.now))
    read = {run.run_id: run for run in bed.leader.read_runs([limited.run_id, plain.run_id])}
    assert (read[limited.run_id].limits, read[limited.run_id].lane) == (USES, 'limits:[["tenant","acme"]]')
    assert (read[plain.run_id].limits, read[plain.run_id].lane) == ((), "")
    assert bed.runs.get(limited.run_id).limits == USES


def test_the_controls_have_every_limit_and_those_of_queues(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    assert sql_stores.database is not None
    with sql_stores.database.write() as connection:
        times = {"created_at": lease.now, "updated_at": lease.now}
        connection.execute(limits.insert().values(**limit_values(TENANT), **times))
        own = {"queue": "mail", "description": "", "concurrency": 3, "fair": True}
        connection.execute(queues.insert().values(own))
        connection.execute(queues.insert().values(queue="plain", description="nothing of it"))
        raise_version(connection)
    mail = Limit("queue:mail", Bounds(3))
    expected = Controls(1, {}, {"tenant": TENANT, "queue:mail": mail}, frozenset({"mail"}))
    assert sql_stores.leader.controls(0) == expected


def test_an_override_replaces_part_by_part() -> None:
    assert TENANT.bounds_of("acme") == Bounds(20, Rate(90, 10 * SECOND))
    assert TENANT.bounds_of("other") == TENANT.bounds
    assert TENANT.bounds_of(None) == TENANT.bounds
