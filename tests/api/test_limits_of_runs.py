"""Limits and fair keys as requests give them to runs and jobs, and as both show them again."""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support.answering_leader import AnsweringLeader
from tests.support.forms import submit

RUNS, JOBS = "/api/v1/runs", "/api/v1/jobs"
ACME = {"name": "tenant", "key": "acme"}
OF_TENANT = {"name": "tenant", "key": {"from": "kwargs.tenant"}}

pytestmark = pytest.mark.usefixtures("limits")


def places(answer: Any) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [".".join(error["loc"]) for error in answer.json()["errors"]]


@pytest.fixture
def limited(api: TestClient, job: dict[str, Any]) -> dict[str, Any]:
    """A stored job whose runs count for their tenant."""
    keys = {"limits": ["api", OF_TENANT], "fair_key": {"from": "kwargs.tenant"}}
    body = {**job, "schedule": {"kind": "hourly", "minute": 17}, "kwargs": {"tenant": "acme"}, **keys}
    answer = api.post(JOBS, json=body)
    assert answer.status_code == 201, answer.text
    return body


def test_a_run_shows_the_limits_and_the_fair_key_that_it_was_given(api: TestClient) -> None:
    run = api.post(RUNS, json={"task": "t", "limits": [{"name": "api"}, ACME]}).json()
    assert (run["limits"], run["fair_key"]) == (["api", ACME], None)
    assert api.get(f"{RUNS}/{run['run_id']}").json() == run
    fair = api.post(RUNS, json={"task": "t", "limits": ["api"], "fair_key": "acme"}).json()
    assert (fair["limits"], fair["fair_key"]) == (["api"], "acme")
    plain = api.post(RUNS, json={"task": "t", "limits": [], "fair_key": None}).json()
    assert (plain["limits"], plain["fair_key"]) == ([], None)
    listed = api.get(RUNS).json()["items"]
    assert [one["limits"] for one in listed] == [[], ["api"], ["api", ACME]]


def test_requests_that_spell_a_limit_otherwise_are_the_same(api: TestClient) -> None:
    first, second, other = (
        api.post(RUNS, json={"task": "t", "limits": limits, "idempotency_key": "k"})
        for limits in (["api"], [{"name": "api", "key": None}], [ACME])
    )
    assert (first.status_code, second.status_code, other.status_code) == (201, 200, 409)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"limits": ["gone"]}, ["limits.0"]),
        ({"limits": ["api", {"name": "gone", "key": "k"}]}, ["limits.1"]),
        ({"limits": ["tenant"]}, ["limits.0.key"]),
        ({"limits": [{"name": "api", "key": "k"}]}, ["limits.0.key"]),
        ({"limits": [ACME, ACME]}, ["limits.1"]),
        ({"limits": ["a", "b", "c", "d", "e"]}, ["limits"]),
        ({"limits": [OF_TENANT], "kwargs": {"tenant": "acme"}}, ["limits.0.key"]),
        ({"fair_key": {"from": "kwargs.tenant"}}, ["fair_key"]),
        ({"fair_key": "k" * 257, "limits": [{"name": "tenant", "key": ""}]}, ["limits.0.key", "fair_key"]),
        ({"fair_key": "k", "limits": ["api", ACME]}, ["fair_key"]),  # the key of the limit is its lane
    ],
)
def test_what_a_run_cannot_name_is_refused_by_field(
    api: TestClient, given: dict[str, Any], expected: list[str]
) -> None:
    assert places(api.post(RUNS, json={"task": "t", **given})) == expected
    batch = api.post(f"{RUNS}/batch", json={"runs": [{"task": "t"}, {"task": "t", **given}]})
    assert places(batch) == [f"runs.1.{field}" for field in expected]
    assert api.get(RUNS).json()["items"] == []


def test_a_manual_run_has_the_job_s_limits_or_its_own(api: TestClient, limited: dict[str, Any]) -> None:
    trigger = f"{JOBS}/a.job/trigger"
    assert api.post(trigger).json()["limits"] == ["api", ACME]
    other = api.post(trigger, json={"kwargs": {"tenant": 7}}).json()
    assert other["limits"] == ["api", {"name": "tenant", "key": "7"}]
    own = api.post(trigger, json={"limits": ["api"], "fair_key": "mine"}).json()
    assert (own["limits"], own["fair_key"]) == (["api"], "mine")
    none = api.post(trigger, json={"limits": []}).json()
    assert (none["limits"], none["fair_key"]) == ([], "acme")
    refused = api.post(trigger, json={"kwargs": {"tenant": None}})
    assert places(refused) == ["kwargs.tenant", "kwargs.tenant"]
    assert places(api.post(trigger, json={"limits": ["gone"], "fair_key": ""})) == ["fair_key"]
    assert places(api.post(trigger, json={"limits": ["gone"]})) == ["limits.0"]
    assert places(api.post(trigger, json={"fair_key": "mine"})) == ["fair_key"]


def test_a_job_whose_runs_do_not_wait_by_its_fair_key_is_saved_with_a_warning(
    api: TestClient, limited: dict[str, Any]
) -> None:
    (warning,) = api.get(f"{JOBS}/a.job").json()["warnings"]
    assert warning.startswith("fair_key counts only for manual runs that name limits of their own without keys")
    assert api.put(f"{JOBS}/a.job", json={**limited, "limits": ["api"]}).json()["warnings"] == []


def test_a_run_again_and_a_backfill_keep_the_limits(
    api: TestClient, limited: dict[str, Any], leader: AnsweringLeader
) -> None:
    run = api.post(f"{JOBS}/a.job/trigger").json()
    api.post(f"{RUNS}/{run['run_id']}/cancel")
    again = api.post(f"{RUNS}/{run['run_id']}/retry").json()
    assert (again["retry_of"], again["limits"]) == (run["run_id"], run["limits"])
    window = {"from": "2026-11-01T00:00:00Z", "to": "2026-11-01T02:00:00Z"}
    filled = api.post(f"{JOBS}/a.job/backfill", json=window).json()
    assert filled["runs"] == 2
    assert {str(api.get(f"{RUNS}/{run_id}").json()["limits"]) for run_id in filled["run_ids"]} == {str(run["limits"])}


def test_a_job_shows_and_keeps_what_it_names(api: TestClient, limited: dict[str, Any]) -> None:
    kept = api.get(f"{JOBS}/a.job").json()
    assert {name: kept[name] for name in limited if name != "schedule"} == {
        name: limited[name] for name in limited if name != "schedule"
    }
    assert api.put(f"{JOBS}/a.job", json=limited).json()["version"] == 1
    changed = api.patch(f"{JOBS}/a.job", json={"limits": None}).json()
    assert (changed["limits"], changed["fair_key"], changed["version"]) == ([], limited["fair_key"], 2)


def test_the_pages_of_a_job_and_of_a_run_tell_what_they_count_for(api: TestClient, limited: dict[str, Any]) -> None:
    page = api.get("/jobs/a.job").text
    assert "Its runs count for api and tenant of their argument kwargs.tenant." in page
    assert "In a fair queue, its runs take turns as those of their argument kwargs.tenant." in page
    run = api.post(f"{JOBS}/a.job/trigger").json()
    assert '<a href="/limits"><code>api</code> <code>tenant/acme</code></a>' in api.get(f"/runs/{run['run_id']}").text
    fair = api.post(RUNS, json={"task": "t", "fair_key": "<acme>"}).json()
    assert "<dt>Fair key</dt><dd><code>&lt;acme&gt;</code></dd>" in api.get(f"/runs/{fair['run_id']}").text


def test_the_form_takes_limits_and_tells_which_of_them_is_wrong(api: TestClient) -> None:
    typed = {"job_id": "typed", "task": "t", "kind": "hourly", "hourly.minute": "17"}
    own = {"limits": f'["api", {json.dumps(OF_TENANT)}]', "kwargs": '{"tenant": 7}', "fair_key": "acme"}
    assert submit(api, "/new-job", **typed, **own).status_code == 303
    kept = api.get(f"{JOBS}/typed").json()
    assert (kept["limits"], kept["fair_key"]) == (["api", OF_TENANT], "acme")
    for field, text, told in (
        ("limits", '["gone"]', "no limit has this name"),
        ("limits", "gone", "JSON"),
        ("fair_key", '{"from": "kwargs.other"}', "must be a text of 1 to 256 characters"),
    ):
        refused = submit(api, "/new-job", **{**typed, "job_id": "other", field: text})
        assert refused.status_code == 422
        assert f'<a href="#field-{field}">' in refused.text
        assert told in refused.text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"limits": ["gone"]}, ["limits.0"]),
        ({"limits": [OF_TENANT]}, ["limits.0.key"]),
        ({"limits": [OF_TENANT], "kwargs": {"tenant": None}}, ["limits.0.key"]),
        ({"limits": [{"name": "tenant", "key": {"from": "args.0"}}], "args": [["x"]]}, ["limits.0.key"]),
        ({"fair_key": {"from": "kwargs.api_key"}, "kwargs": {"api_key": "s3cret"}}, ["fair_key"]),
        ({"fair_key": {"from": "tenant"}}, ["fair_key.from"]),
        ({"limits": [OF_TENANT, OF_TENANT], "kwargs": {"tenant": "a"}}, ["limits.1"]),
        ({"limits": ["api"] * 5, "priority": 10, "schedule": {"kind": "hourly"}}, ["priority", "limits", "schedule"]),
    ],
)
def test_what_a_job_cannot_name_is_refused_by_field(
    api: TestClient, job: dict[str, Any], given: dict[str, Any], expected: list[str]
) -> None:
    found = places(api.post(JOBS, json={**job, **given}))
    assert [field.partition(".minute")[0] for field in found] == expected
    api.post(JOBS, json=job)
    assert places(api.patch(f"{JOBS}/a.job", json=given))[: len(expected)] == found
    assert places(api.post(f"{JOBS}/apply", json={"jobs": [{**job, **given}], "dry_run": True})) == [
        f"jobs.0.{field}" for field in found
    ]
