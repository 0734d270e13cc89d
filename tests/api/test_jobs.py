"""Jobs over HTTP: what CONTRACT.md says of each call."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from scheduler_service.bootstrap.parts import Stores
from scheduler_service.core.leader.messages import JobChanged, RunEnqueued
from tests.support.answering_leader import AnsweringLeader

JOBS = "/api/v1/jobs"


def test_a_made_job_comes_back_with_every_default_its_location_and_its_version(
    api: TestClient, job: dict[str, Any]
) -> None:
    answer = api.post(JOBS, json=job)
    assert answer.status_code == 201
    assert answer.headers["location"] == "/api/v1/jobs/a.job"
    assert answer.headers["etag"] == '"1"'
    made = answer.json()
    assert len(made.pop("next_runs")) == 5
    assert made.pop("warnings") == []
    schedule = made.pop("schedule")
    assert schedule["kind"] == "interval"
    assert schedule["every"] == "25m"
    assert made == {
        "job_id": "a.job", "title": "", "task": "itinerary.echo", "args": [], "kwargs": {}, "queue": "default",
        "priority": 5, "start_at": None, "end_at": None, "jitter": "0s",
        "misfire": {"policy": "fire_once", "grace": "30s", "max_catch_up": 100}, "overlap": "skip",
        "retry": {"max_attempts": 1, "initial": "5s", "factor": 2, "max": "10m", "jitter": True},
        "timeout": None, "start_within": None, "must_end_within": None, "headers": None,
        "limits": [], "fair_key": None, "calendars": None, "ping": None,
        "keep_logs": "failures", "tags": [], "description": "", "paused": False,
        "pause_reason": None,
        "paused_until": None, "pause_waiting": None, "source": None, "version": 1,
    }  # fmt: skip


def test_a_pause_says_what_becomes_of_what_waits(api: TestClient, job: dict[str, Any]) -> None:
    api.post(JOBS, json=job)
    kept = api.post(f"{JOBS}/a.job/pause", json={"reason": "audit"}).json()
    skipped = api.post(f"{JOBS}/a.job/pause", json={"reason": "audit", "waiting": "skip"}).json()
    assert (kept["pause_waiting"], skipped["pause_waiting"]) == ("keep", "skip")
    assert skipped["version"] == kept["version"] + 1
    for wrong in ("drop", "", 0, [], False):
        refused = api.post(f"{JOBS}/a.job/pause", json={"waiting": wrong})
        assert (refused.status_code, refused.json()["errors"][0]["loc"]) == (422, ["waiting"])


def test_the_leader_hears_of_each_change_once_and_of_no_change_not_at_all(
    api: TestClient, job: dict[str, Any], leader: AnsweringLeader
) -> None:
    api.post(JOBS, json=job)
    api.put(f"{JOBS}/a.job", json=job)
    api.patch(f"{JOBS}/a.job", json={"title": "new"})
    api.delete(f"{JOBS}/a.job")
    leader.wait_for(JobChanged("a.job", "removed"))
    assert leader.told() == [JobChanged("a.job", change) for change in ("added", "modified", "removed")]


def test_a_job_that_exists_is_not_made_again(api: TestClient, job: dict[str, Any]) -> None:
    api.post(JOBS, json=job)
    taken = api.post(JOBS, json=job)
    assert taken.status_code == 409
    assert f"`itinerary jobs edit {job['job_id']}`, or PUT with If-Match" in taken.json()["detail"]


def test_every_bad_field_is_named_at_once_with_what_is_allowed(api: TestClient) -> None:
    bad = {
        "job_id": "-bad",
        "task": "",
        "schedule": {"kind": "cron", "expr": "99 * * * *"},
        "priority": 10,
        "colour": "red",
    }
    answer = api.post(JOBS, json=bad)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    complaints = {".".join(error["loc"]): error["msg"] for error in answer.json()["errors"]}
    assert complaints.keys() >= {"job_id", "task", "schedule.expr", "priority", "colour"}
    assert "59" in complaints["schedule.expr"]
    assert "0 to 9" in complaints["priority"]


def test_a_cron_expression_that_never_matches_is_refused(api: TestClient, job: dict[str, Any]) -> None:
    answer = api.post(JOBS, json={**job, "schedule": {"kind": "cron", "expr": "0 0 31 2 *"}})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["loc"] == ["schedule", "expr"]


def test_a_single_time_that_no_list_could_show_is_refused_and_the_last_that_can_is_planned(
    api: TestClient, job: dict[str, Any]
) -> None:
    last = api.post(JOBS, json={**job, "schedule": {"kind": "once", "at": "9999-12-29T23:59:59Z"}})
    assert (last.json()["next_runs"], last.json()["warnings"]) == (["9999-12-29T23:59:59Z"], [])
    answer = api.put(f"{JOBS}/a.job", json={**job, "schedule": {"kind": "once", "at": "9999-12-30T00:00:00Z"}})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert (error["loc"], "give a time before 9999-12-30T00:00:00Z" in error["msg"]) == (["schedule", "at"], True)


def test_put_makes_then_replaces_and_an_equal_body_changes_no_version(api: TestClient, job: dict[str, Any]) -> None:
    made = api.put(f"{JOBS}/a.job", json=job)
    again = api.put(f"{JOBS}/a.job", json=job)
    replaced = api.put(f"{JOBS}/a.job", json={**job, "title": "other"})
    assert [made.status_code, again.status_code, replaced.status_code] == [201, 200, 200]
    assert [made.json()["version"], again.json()["version"], replaced.json()["version"]] == [1, 1, 2]
    assert replaced.headers["etag"] == '"2"'


def test_what_get_gives_can_be_put_back_and_changes_nothing(api: TestClient, job: dict[str, Any]) -> None:
    api.post(JOBS, json=job)
    seen = api.get(f"{JOBS}/a.job").json()
    answer = api.put(f"{JOBS}/a.job", json=seen)
    assert answer.status_code == 200
    assert answer.json()["version"] == 1


def test_put_takes_the_id_from_the_address_and_refuses_another(api: TestClient, job: dict[str, Any]) -> None:
    del job["job_id"]
    assert api.put(f"{JOBS}/b.job", json=job).status_code == 201
    assert api.put(f"{JOBS}/b.job", json={**job, "job_id": "c.job"}).status_code == 422


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_an_edit_of_a_version_that_is_gone_is_refused_and_changes_nothing(
    api: TestClient, job: dict[str, Any], method: str
) -> None:
    api.post(JOBS, json=job)
    api.patch(f"{JOBS}/a.job", json={"title": "second"})
    body = {} if method == "delete" else {"json": {**job, "title": "third"}}
    answer = getattr(api, method)(f"{JOBS}/a.job", headers={"If-Match": '"1"'}, **body)
    assert answer.status_code == 412
    assert api.get(f"{JOBS}/a.job").json()["title"] == "second"
    assert getattr(api, method)(f"{JOBS}/a.job", headers={"If-Match": '"2"'}, **body).is_success


@pytest.mark.parametrize("if_match", ['"1"', "*"])
def test_if_match_on_a_job_that_does_not_exist_makes_none(api: TestClient, job: dict[str, Any], if_match: str) -> None:
    assert api.put(f"{JOBS}/a.job", json=job, headers={"If-Match": if_match}).status_code == 412
    assert api.get(f"{JOBS}/a.job").status_code == 404


def test_patch_changes_what_it_names_and_null_takes_the_default_back(api: TestClient, job: dict[str, Any]) -> None:
    api.post(JOBS, json={**job, "title": "t", "kwargs": {"a": 1, "b": {"c": 2}}, "timeout": "5m"})
    answer = api.patch(f"{JOBS}/a.job", json={"timeout": None, "kwargs": {"b": {"d": 3}}, "retry": {"max_attempts": 4}})
    assert answer.status_code == 200
    seen = answer.json()
    assert (seen["title"], seen["timeout"], seen["kwargs"]) == ("t", None, {"a": 1, "b": {"c": 2, "d": 3}})
    assert seen["retry"]["max_attempts"] == 4
    assert seen["version"] == 2


@pytest.mark.parametrize("name", ["", "colour"])
def test_patch_refuses_a_field_that_there_is_not_even_as_null(api: TestClient, job: dict[str, Any], name: str) -> None:
    api.post(JOBS, json=job)
    answer = api.patch(f"{JOBS}/a.job", json={name: None})
    assert answer.status_code == 422
    assert [error["loc"] for error in answer.json()["errors"]] == [[name] if name else []]


@pytest.mark.parametrize("name", ["retry", "misfire", "schedule"])
def test_patch_refuses_a_field_that_there_is_not_inside_another_even_as_null(
    api: TestClient, job: dict[str, Any], name: str
) -> None:
    api.post(JOBS, json=job)
    answer = api.patch(f"{JOBS}/a.job", json={name: {"colour": None}})
    assert answer.status_code == 422
    assert [error["loc"] for error in answer.json()["errors"]] == [[name, "colour"]]
    assert api.get(f"{JOBS}/a.job").json()["version"] == 1


def test_patch_with_null_takes_what_there_is_inside_a_field_back_to_its_default(
    api: TestClient, job: dict[str, Any]
) -> None:
    api.post(JOBS, json={**job, "retry": {"factor": 3}, "misfire": {"grace": "5m"}, "kwargs": {"a": 1}})
    nulls = {"retry": {"factor": None}, "misfire": {"grace": None}, "kwargs": {"a": None, "b": None}}
    seen = api.patch(f"{JOBS}/a.job", json={**nulls, "schedule": {"offset": None}}).json()
    assert (seen["retry"]["factor"], seen["misfire"]["grace"], seen["kwargs"]) == (2, "30s", {})


def test_patch_to_another_kind_of_schedule_may_name_with_null_what_either_kind_has(
    api: TestClient, job: dict[str, Any]
) -> None:
    api.post(JOBS, json=job)
    to_cron = {"kind": "cron", "expr": "0 2 * * *", "dst_gap": None, "every": None}
    assert api.patch(f"{JOBS}/a.job", json={"schedule": to_cron}).status_code == 200
    answer = api.patch(f"{JOBS}/a.job", json={"schedule": {"kind": "hourly", "minute": 1, "every": None}})
    assert [error["loc"] for error in answer.json()["errors"]] == [["schedule", "every"]]


def test_patching_the_schedule_of_the_same_kind_keeps_its_other_fields(api: TestClient, job: dict[str, Any]) -> None:
    api.post(JOBS, json={**job, "schedule": {"kind": "cron", "expr": "0 2 * * *", "timezone": "Europe/Berlin"}})
    seen = api.patch(f"{JOBS}/a.job", json={"schedule": {"expr": "0 3 * * *"}}).json()["schedule"]
    assert (seen["expr"], seen["timezone"]) == ("0 3 * * *", "Europe/Berlin")


def test_patching_the_schedule_to_another_kind_replaces_it(api: TestClient, job: dict[str, Any]) -> None:
    api.post(JOBS, json=job)
    answer = api.patch(f"{JOBS}/a.job", json={"schedule": {"kind": "hourly", "minute": 17}})
    assert answer.status_code == 200
    assert answer.json()["schedule"]["minute"] == 17
    assert "every" not in answer.json()["schedule"]


def test_jobs_are_listed_by_id_and_filtered(api: TestClient, job: dict[str, Any]) -> None:
    for name, tags in (("c", ["red"]), ("a", ["red", "blue"]), ("b", [])):
        api.post(JOBS, json={**job, "job_id": name, "tags": tags, "title": f"title of {name}"})
    api.post(f"{JOBS}/b/pause", json={})

    def ids(query: str) -> list[str]:
        return [item["job_id"] for item in api.get(f"{JOBS}?{query}").json()["items"]]

    assert ids("") == ["a", "b", "c"]
    assert ids("tag=red") == ["a", "c"]
    assert ids("q=TITLE of b") == ["b"]
    assert ids("paused=true") == ["b"]
    assert ids("paused=false") == ["a", "c"]


def test_every_job_is_seen_once_while_others_are_made_and_deleted_between_pages(
    api: TestClient, job: dict[str, Any]
) -> None:
    for number in range(10):
        api.post(JOBS, json={**job, "job_id": f"j{number}"})
    seen: list[str] = []
    cursor = ""
    while True:
        page = api.get(f"{JOBS}?limit=3{cursor}").json()
        seen += [item["job_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
        api.post(JOBS, json={**job, "job_id": f"a{len(seen)}"})
        api.delete(f"{JOBS}/{seen[0]}")
    assert seen == [f"j{number}" for number in range(10)]


def test_pausing_keeps_the_reason_and_resuming_drops_it(api: TestClient, job: dict[str, Any]) -> None:
    api.post(JOBS, json=job)
    paused = api.post(f"{JOBS}/a.job/pause", json={"reason": "audit", "until": "2999-01-01T00:00:00Z"})
    assert paused.status_code == 200
    seen = paused.json()
    assert (seen["paused"], seen["pause_reason"], seen["paused_until"]) == (True, "audit", "2999-01-01T00:00:00Z")
    resumed = api.post(f"{JOBS}/a.job/resume").json()
    assert (resumed["paused"], resumed["pause_reason"], resumed["paused_until"]) == (False, None, None)


def test_a_paused_job_has_no_next_run_and_one_paused_until_a_time_runs_from_then(
    api: TestClient, job: dict[str, Any]
) -> None:
    api.post(JOBS, json=job)
    assert api.post(f"{JOBS}/a.job/pause").json()["next_runs"] == []
    later = api.post(f"{JOBS}/a.job/pause", json={"until": "2999-01-01T00:00:00Z"}).json()
    assert later["next_runs"][0] >= "2999-01-01T00:00:00Z"


def test_a_triggered_job_has_a_run_in_the_database_before_the_answer(
    api: TestClient, job: dict[str, Any], stores: Stores, leader: AnsweringLeader
) -> None:
    api.post(JOBS, json={**job, "kwargs": {"a": 1, "b": 2}, "queue": "slow"})
    answer = api.post(f"{JOBS}/a.job/trigger", json={"kwargs": {"b": 3}, "overlap": "allow"})
    assert answer.status_code == 202
    run = answer.json()
    assert run["run_id"].startswith("a.job_manual-")
    assert (run["job_id"], run["job_version"], run["state"], run["queue"]) == ("a.job", 1, "scheduled", "slow")
    assert run["kwargs"] == {"a": 1, "b": 3}
    assert stores.runs.get(run["run_id"]).kwargs == {"a": 1, "b": 3}
    leader.wait_for(RunEnqueued((run["run_id"],)))


def test_a_deleted_job_is_gone_and_may_be_made_again_with_a_higher_version(
    api: TestClient, job: dict[str, Any]
) -> None:
    api.post(JOBS, json=job)
    assert api.delete(f"{JOBS}/a.job").status_code == 204
    assert api.get(f"{JOBS}/a.job").status_code == 404
    assert api.delete(f"{JOBS}/a.job").status_code == 404
    assert api.post(JOBS, json=job).json()["version"] > 1


@pytest.mark.parametrize("name", ["nobody", "-", "a%00b", "a%2Fb", "%ED%A0%80", "x" * 129])
@pytest.mark.parametrize("path", ["", "/preview"])
def test_a_job_that_cannot_be_is_not_found(api: TestClient, name: str, path: str) -> None:
    assert api.get(f"{JOBS}/{name}{path}").status_code == 404


def test_a_preview_counts_strictly_after_its_start_and_tells_what_the_clocks_do(api: TestClient) -> None:
    answer = api.post(
        "/api/v1/preview",
        json={
            "schedule": {"kind": "cron", "expr": "30 2 * * *", "timezone": "Europe/Berlin"},
            "from": "2026-03-28T01:30:00Z",
            "count": 2,
        },
    )
    assert answer.status_code == 200
    seen = answer.json()
    assert [o["at"] for o in seen["occurrences"]] == ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    assert seen["occurrences"][0]["local"] == "2026-03-29T03:00:00"
    assert seen["occurrences"][0]["offset"] == "+02:00"
    assert seen["occurrences"][0]["dst"] is not None
    assert seen["occurrences"][1]["dst"] is None
    assert "02:30" in seen["text"]
    assert isinstance(seen["warnings"], list)


def test_an_offset_is_kept_through_the_day(api: TestClient) -> None:
    schedule = {"kind": "interval", "every": "25m", "offset": "2m"}
    asked = {"schedule": schedule, "from": "2026-11-27T00:00:00Z", "count": 3}
    seen = api.post("/api/v1/preview", json=asked).json()
    assert [o["at"][11:16] for o in seen["occurrences"]] == ["00:27", "00:52", "01:17"]


def test_a_preview_of_a_saved_job_ends_where_the_job_ends(api: TestClient, job: dict[str, Any]) -> None:
    api.post(JOBS, json={**job, "end_at": "2999-01-01T00:00:00Z"})
    seen = api.get(f"{JOBS}/a.job/preview?count=1000&from=2998-12-31T23:00:00Z").json()
    assert 0 < len(seen["occurrences"]) < 4


@pytest.mark.parametrize("start", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1969-12-31T23:59:59.5Z"])
@pytest.mark.parametrize(
    "schedule",
    [
        {"kind": "interval", "every": "1d"},
        {"kind": "cron", "expr": "0 0 29 2 *", "timezone": "America/New_York"},
        {"kind": "hourly", "minute": 5, "timezone": "Asia/Kathmandu"},
        {"kind": "once", "at": "2030-01-01T00:00:00Z"},
    ],
)
def test_a_preview_from_the_ends_of_time_is_answered(api: TestClient, start: str, schedule: dict[str, Any]) -> None:
    answer = api.post("/api/v1/preview", json={"schedule": schedule, "from": start})
    assert answer.status_code in (200, 422), answer.text


def test_a_bad_preview_names_each_field(api: TestClient) -> None:
    bad = api.post("/api/v1/preview", json={"schedule": {"kind": "cron", "expr": "x"}, "speed": 1})
    assert bad.status_code == 422
    assert {error["loc"][0] for error in bad.json()["errors"]} == {"schedule", "speed"}


def test_h_is_resolved_when_the_job_is_saved_and_saving_it_again_changes_nothing(
    api: TestClient, job: dict[str, Any]
) -> None:
    with_h = {**job, "schedule": {"kind": "cron", "expr": "H H * * *"}}
    saved = api.post(JOBS, json=with_h).json()["schedule"]["expr"]
    assert "H" not in saved
    assert api.put(f"{JOBS}/a.job", json=with_h).json()["version"] == 1


def test_jobs_at_the_end_of_time_can_be_seen(api: TestClient, job: dict[str, Any]) -> None:
    late = "9999-12-31T23:59:59Z"
    for number, change in enumerate(
        [
            {"start_at": late},
            {"schedule": {"kind": "once", "at": late}},
            {"schedule": {"kind": "interval", "every": "1d", "anchor": late}},
        ]
    ):
        answer = api.post(JOBS, json={**job, **change, "job_id": f"j{number}"})
        assert answer.status_code in (201, 422), answer.text
    assert api.get("/").status_code == 200
    assert api.get(JOBS).status_code == 200


def test_a_pause_ends_in_the_time_to_come(api: TestClient, job: dict[str, Any]) -> None:
    api.post("/api/v1/jobs", json=job)
    answer = api.post(f"{JOBS}/a.job/pause", json={"until": "2020-01-01T00:00:00Z"})
    assert (answer.status_code, answer.json()["errors"][0]["loc"]) == (422, ["until"])
    assert api.post(f"{JOBS}/a.job/pause", headers={"If-Match": '"2"'}).status_code == 412
    assert api.get("/api/v1/jobs/a.job").json()["paused"] is False
