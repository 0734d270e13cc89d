"""Limits that jobs and runs name are judged in the transaction that saves them, on every store."""

import re
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import delete, select

from itinerary.protocol.errors import BadValues
from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.limits import LimitUse, lane_of
from scheduler_service.core.contract.job_plan import JobSet
from scheduler_service.core.contract.run_requests import RunsRefused, again
from scheduler_service.core.model import Job, NewRun
from scheduler_service.sql.control_tables import job_limits, limits
from scheduler_service.sql.job_sets import SqlJobSets
from tests.support.limits import define
from tests.support.statements import noted
from tests.support.store_bed import StoreBed, a_job, one_off

ACME = LimitUse("tenant", "acme")
KEYED = {"limits": [{"name": "tenant", "key": {"from": "kwargs.tenant"}}, "api"], "kwargs": {"tenant": "acme"}}


def fields_of(refused: Any) -> list[str]:
    return [error.field for error in refused.value.errors]


def named(bed: StoreBed) -> dict[str, set[str]]:
    """The limits that each job is known to name."""
    if bed.database is None:
        return {job: {*names} for job, names in bed.jobs._tables.job_limits.items() if names}  # type: ignore[attr-defined]
    with bed.database.read() as connection:
        found: dict[str, set[str]] = {}
        for row in connection.execute(select(job_limits)):
            found.setdefault(row.job_id, set()).add(row.limit_name)
        return found


def forget(bed: StoreBed) -> None:
    """Every limit is gone, as after a delete that this test does not make."""
    if bed.database is None:
        bed.jobs._tables.limits.clear()  # type: ignore[attr-defined]
        return
    with bed.database.write() as connection:
        connection.execute(delete(limits))


@pytest.fixture
def limited(bed: StoreBed) -> StoreBed:
    """Stores with two limits."""
    define(bed.limits)
    return bed


def using(*uses: LimitUse, **fields: Any) -> NewRun:
    return replace(one_off(0), limits=uses, lane=lane_of(uses), **fields)


def test_a_run_names_limits_that_exist_with_the_keys_that_they_want(limited: StoreBed) -> None:
    wrong = [LimitUse("gone", "k"), LimitUse("tenant"), LimitUse("api", "k")]
    good = using(ACME, LimitUse("api"))
    with pytest.raises(RunsRefused) as refused:
        limited.runs.enqueue([good, using(*wrong)])
    assert fields_of(refused) == ["limits.0", "limits.1.key", "limits.2.key"]
    assert fields_of(type("", (), {"value": refused.value.of_batch()}))[0] == "runs.1.limits.0"
    ((run, created),) = limited.runs.enqueue([good])
    assert (run.limits, run.lane, created) == ((ACME, LimitUse("api")), 'limits:[["tenant","acme"]]', True)


def test_a_request_is_repeated_and_a_run_run_again_after_its_limit_is_gone(limited: StoreBed) -> None:
    first = using(ACME, idempotency_key="k", request_hash="h")
    ((run, _),) = limited.runs.enqueue([first])
    forget(limited)
    assert limited.runs.enqueue([replace(first, run_id=adhoc_run_id("2"))]) == [(run, False)]
    ((copy, created),) = limited.runs.enqueue([again(run, "3", run.due_at)])
    assert (copy.limits, copy.lane, created) == (run.limits, run.lane, True)
    with pytest.raises(RunsRefused):
        limited.runs.enqueue([using(ACME)])


def test_a_job_names_limits_that_exist_and_is_known_by_them(limited: StoreBed) -> None:
    with pytest.raises(BadValues) as refused:
        limited.jobs.create(a_job(limits=["tenant", "gone", {"name": "api", "key": "k"}]))
    assert fields_of(refused) == ["limits.0.key", "limits.1", "limits.2.key"]
    limited.jobs.create(a_job("plain"))
    limited.jobs.create(a_job(**KEYED))
    assert named(limited) == {"job": {"tenant", "api"}}
    limited.jobs.replace(a_job(limits=["api"]), None)
    assert named(limited) == {"job": {"api"}}
    with pytest.raises(BadValues):
        limited.jobs.replace(a_job(limits=["gone"]), None)
    assert limited.jobs.get("job").limits == a_job(limits=["api"]).limits
    limited.jobs.delete("job", None)
    assert named(limited) == {}
    limited.jobs.create(a_job(limits=["api"]))
    assert named(limited) == {"job": {"api"}}
    limited.jobs.replace(a_job(), None)
    assert named(limited) == {}


def test_a_job_whose_limit_went_another_way_can_be_paused_edited_and_deleted(limited: StoreBed) -> None:
    limited.jobs.create(a_job(**KEYED))
    forget(limited)
    limited.jobs.set_paused("job", True, "an incident", None)
    limited.jobs.replace(a_job(**KEYED, title="new"), None)
    limited.jobs.delete("job", None)
    assert named(limited) == {}


def test_an_apply_and_its_plan_name_each_wrong_limit_by_its_place(sql_stores: StoreBed) -> None:
    define(sql_stores.limits)
    sets = SqlJobSets(sql_stores.by_role["api"])

    def wanted(*jobs: Job, prune: bool = True) -> JobSet:
        return JobSet("shop", jobs, prune)

    wrong = wanted(a_job("a", limits=["api"]), a_job("b", limits=["api", "gone"]))
    for judged in (lambda: sets.plan(wrong), lambda: sets.apply(wrong, None)):
        with pytest.raises(BadValues) as refused:
            judged()
        assert fields_of(refused) == ["jobs.1.limits.1"]
    assert named(sql_stores) == {}
    sets.apply(wanted(a_job("a", limits=["api"]), a_job("b", **KEYED), a_job("c")), None)
    assert named(sql_stores) == {"a": {"api"}, "b": {"api", "tenant"}}
    sets.apply(wanted(a_job("b", limits=["api"]), a_job("c", limits=["api"])), None)
    assert named(sql_stores) == {"b": {"api"}, "c": {"api"}}
    sets.apply(wanted(a_job("a", limits=["api"]), a_job("b", limits=["api"])), None)
    assert named(sql_stores) == {"a": {"api"}, "b": {"api"}}


def test_limits_cost_one_read_a_batch_and_runs_and_jobs_without_them_none(sqlite_stores: StoreBed) -> None:
    bed = sqlite_stores
    define(bed.limits)

    def cost(saved: Any) -> int:
        with noted(bed.by_role["api"].engine) as statements:
            saved()
        return len([text for text in statements if re.search(r"\b(FROM|INTO) (job_)?limits\b", text)])

    plain, limited = [one_off(0) for _ in range(50)], [using(ACME, LimitUse("api")) for _ in range(50)]
    assert [cost(lambda: bed.runs.enqueue(plain)), cost(lambda: bed.runs.enqueue(limited))] == [0, 1]
    with noted(bed.by_role["api"].engine) as without:
        bed.runs.enqueue([one_off(0)])
    with noted(bed.by_role["api"].engine) as with_limits:
        bed.runs.enqueue([using(ACME)])
    assert len(with_limits) == len(without) + 1
    assert cost(lambda: bed.jobs.create(a_job("plain"))) == 0
    assert cost(lambda: bed.jobs.create(a_job(limits=["api"]))) == 3
    assert cost(lambda: bed.jobs.replace(a_job(limits=["api"], title="new"), None)) == 0
