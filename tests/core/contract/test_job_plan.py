"""Jobs as code: what is added, changed and removed, decided from values alone."""

from dataclasses import replace
from typing import Any

import pytest

from itinerary.protocol.errors import BadValues, Conflict
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.contract.job_plan import JobSet, check_set, plan_body, plan_jobs, read_source
from scheduler_service.core.contract.plan_parts import FieldChange, changes
from scheduler_service.core.model import Job


def job(job_id: str = "job", *, source: str | None = None, version: int = 1, **fields: Any) -> Job:
    body = {"job_id": job_id, "task": "pkg.task", "schedule": {"kind": "cron", "expr": "0 2 * * *"}, **fields}
    made, _ = read_job(body, created_at=1_800_000_000_000_000)
    return replace(made, source=source, version=version)


def wanted(*jobs: Job, source: str | None = "shop", **flags: bool) -> JobSet:
    return JobSet(source, jobs, **flags)


def test_what_is_not_stored_is_added_and_what_is_equal_is_left_alone() -> None:
    plan = plan_jobs([job("same", source="shop")], wanted(job("same"), job("new")))
    assert [added.job_id for added in plan.added] == ["new"]
    assert (plan.changed, plan.removed, plan.unchanged) == ((), (), 1)


def test_a_change_is_told_field_by_field() -> None:
    there = job(source="shop", kwargs={"a": 1, "b": None}, tags=["x"])
    plan = plan_jobs([there], wanted(job(schedule={"kind": "cron", "expr": "0 3 * * *"}, kwargs={"a": 1.0})))
    assert plan.changed[0].fields == (
        FieldChange("kwargs.a", 1, 1.0),
        FieldChange("kwargs.b", None, None),
        FieldChange("schedule.expr", "0 2 * * *", "0 3 * * *"),
        FieldChange("tags", ["x"], []),
    )


@pytest.mark.parametrize("pair", [(1, True), (1, 1.0), ([1], [True]), ([{"a": 0}], [{"a": False}]), ("1", 1)])
def test_values_that_python_calls_equal_but_json_does_not_are_changes(pair: tuple[Any, Any]) -> None:
    assert changes({"a": pair[0]}, {"a": pair[1]}) == [FieldChange("a", *pair)]


def test_only_what_the_source_owns_is_removed_and_only_when_asked() -> None:
    stored = [job("mine", source="shop"), job("yours", source="other"), job("by-hand")]
    assert [gone.job_id for gone in plan_jobs(stored, wanted(prune=True)).removed] == ["mine"]
    kept = plan_jobs(stored, wanted())
    assert (kept.removed, kept.left) == ((), ("mine",))


def test_a_job_made_by_hand_is_taken_in_and_one_of_another_source_only_when_asked() -> None:
    by_hand = plan_jobs([job()], wanted(job()))
    assert by_hand.changed[0].fields == (FieldChange("source", None, "shop"),)
    assert not by_hand.changed[0].of_definition
    with pytest.raises(Conflict, match=r"job \(other\)"):
        plan_jobs([job(source="other")], wanted(job()))
    assert plan_jobs([job(source="other")], wanted(job(), take_over=True)).changed


def test_without_a_source_jobs_change_whoever_owns_them_and_keep_their_owner() -> None:
    plan = plan_jobs([job("a", source="other"), job("b")], wanted(job("a", title="new"), job("b"), source=None))
    assert [change.fields for change in plan.changed] == [(FieldChange("title", "", "new"),)]


def test_the_plans_version_changes_with_every_version_owner_and_job() -> None:
    states = [[], [job()], [job(version=2)], [job(source="shop")], [job(), job("b")]]
    versions = [plan_jobs(state, wanted(take_over=True)).version for state in states]
    assert len(set(versions)) == len(states)


def test_a_set_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(BadValues, match="duplicate job id"):
        check_set(wanted(job(), job()))
    with pytest.raises(BadValues, match="name a source"):
        check_set(wanted(job(), source=None, prune=True))


@pytest.mark.parametrize("name", ["-x", "a b", "a\n", "x" * 129, 3, "ü"])
def test_a_source_has_a_plain_name(name: object) -> None:
    with pytest.raises(Exception, match="source"):
        read_source(name)


def test_no_name_is_no_source() -> None:
    assert read_source("") is read_source(None) is None


def test_a_plan_as_json_holds_definitions_and_changes() -> None:
    plan = plan_jobs([job("a", source="shop", version=4)], wanted(job("a", title="t"), job("b"), prune=True))
    body = plan_body(plan, applied=False)
    assert body["changed"] == [
        {"job_id": "a", "version": 4, "changes": [{"field": "title", "before": "", "after": "t"}]}
    ]
    assert body["added"][0]["job"]["queue"] == "default"
    assert (body["source"], body["applied"], body["unchanged"]) == ("shop", False, 0)
