"""Freezes over HTTP, on the command line, through the clients: started, listed, ended; forced runs."""

from contextlib import closing
from typing import Any

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import HOUR, format_instant
from scheduler_service.config.settings import Settings
from scheduler_service.core.leader.messages import ControlChanged
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.leader.store import SqlLeaderStore
from tests.support.answering_leader import AnsweringLeader
from tests.support.forms import submit

FREEZES = "/api/v1/freezes"
JOB = {
    "job_id": "billing.close",
    "task": "shop.close",
    "schedule": {"kind": "hourly", "minute": 1},
    "tags": ["billing"],
}


def later(hours: int) -> str:
    return format_instant(host_now() + hours * HOUR)


@pytest.mark.parametrize(
    "scope",
    [{"all": True}, {"queues": ["mail", "sms"]}, {"tags": ["billing"]}, {"jobs": ["billing.close"]}],
    ids=lambda scope: next(iter(scope)),
)
def test_a_freeze_is_started_shown_and_ended(api: TestClient, scope: dict[str, Any]) -> None:
    """Without a leader too."""
    api.post("/api/v1/jobs", json=JOB)
    until = later(2)
    started = api.post(FREEZES, json={"scope": scope, "reason": "a deploy", "until": until, "during": "skip"})
    body = started.json()
    assert started.status_code == 201, body
    assert started.headers["Location"] == f"{FREEZES}/{body['freeze_id']}"
    assert {name: body[name] for name in ("status", "scope", "during", "until", "reason", "running", "pending")} == {
        "status": "active", "scope": scope, "during": "skip", "until": until, "reason": "a deploy", "running": 0,
        "pending": 0,
    }  # fmt: skip
    assert body["from"] == body["created_at"]
    assert api.get(f"{FREEZES}/{body['freeze_id']}").json() == body
    again = api.post(FREEZES, json={"scope": scope, "reason": "a deploy", "until": until, "during": "skip"})
    assert again.json() == body, "the same freeze is not started twice"
    ended = api.post(f"{FREEZES}/{body['freeze_id']}/end").json()
    assert (ended["status"], ended["running"], ended["ended_by"]) == ("past", None, body["created_by"])
    assert api.post(f"{FREEZES}/{body['freeze_id']}/end").json() == ended
    entries = api.get(f"/api/v1/audit?subject=freeze {body['freeze_id']}").json()["items"]
    assert [entry["action"] for entry in entries] == ["freeze.end", "freeze.start"]


def test_freezes_are_listed_page_by_page_and_by_their_status(api: TestClient) -> None:
    def start(reason: str, **more: Any) -> int:
        return int(api.post(FREEZES, json={"scope": {"all": True}, "reason": reason, **more}).json()["freeze_id"])

    past, active, coming = start("past"), start("active"), start("coming", **{"from": later(1)})
    api.post(f"{FREEZES}/{past}/end")
    first = api.get(f"{FREEZES}?limit=2").json()
    last = api.get(f"{FREEZES}?limit=2&cursor={first['next_cursor']}").json()
    listed = [one["freeze_id"] for page in (first, last) for one in page["items"]]
    assert (listed, last["next_cursor"]) == ([coming, active, past], None)
    for status, expected in (("active", active), ("coming", coming), ("past", past)):
        assert [one["freeze_id"] for one in api.get(f"{FREEZES}?status={status}").json()["items"]] == [expected]
    assert api.get(f"{FREEZES}?status=other").status_code == 422


def test_all_wrong_values_are_named_at_once(api: TestClient) -> None:
    wrong = {"scope": {"all": False}, "from": later(-1), "until": later(-2), "during": "wait", "other": 1}
    errors = {".".join(error["loc"]): error["msg"] for error in api.post(FREEZES, json=wrong).json()["errors"]}
    assert set(errors) == {"scope.all", "from", "until", "during", "other"}
    assert "does not reach back" in errors["from"]
    assert "give a time in the future" in errors["until"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"reason": "why"}, "scope"),
        ({"scope": {}, "reason": "why"}, "scope"),
        ({"scope": {"all": True, "jobs": ["a"]}, "reason": "why"}, "scope"),
        ({"scope": {"jobs": []}, "reason": "why"}, "scope.jobs"),
        ({"scope": {"jobs": ["never.made"]}, "reason": "why"}, "scope.jobs"),
        ({"scope": {"jobs": ["a b"]}, "reason": "why"}, "scope.jobs.0"),
        ({"scope": {"tags": ["t"] * 101}, "reason": "why"}, "scope.tags"),
        ({"scope": {"tags": [""]}, "reason": "why"}, "scope.tags.0"),
        ({"scope": {"queues": ["a", "b c"]}, "reason": "why"}, "scope.queues.1"),
        ({"scope": {"all": True}}, "reason"),
        ({"scope": {"all": True}, "reason": ""}, "reason"),
        ({"scope": {"all": True}, "reason": "why", "from": "2999-01-01T00:00:00Z", "until": later(1)}, "until"),
    ],
)
def test_a_wrong_value_names_its_field(api: TestClient, body: dict[str, Any], field: str) -> None:
    answer = api.post(FREEZES, json=body)
    assert answer.status_code == 422
    assert [error["loc"] for error in answer.json()["errors"]] == [field.split(".")]


def test_an_unknown_freeze_is_not_found(api: TestClient) -> None:
    for freeze_id in ("4711", "0", "x", "9" * 30):
        assert api.get(f"{FREEZES}/{freeze_id}").status_code == 404
        assert api.post(f"{FREEZES}/{freeze_id}/end").status_code == 404


def test_the_leader_hears_of_each_edit(api: TestClient, leader: AnsweringLeader) -> None:
    freeze = api.post(FREEZES, json={"scope": {"all": True}, "reason": "why"}).json()
    api.post(f"{FREEZES}/{freeze['freeze_id']}/end")
    leader.wait_for(ControlChanged())


def test_a_forced_run_is_stored_as_one_and_force_is_judged(api: TestClient, settings: Settings) -> None:
    api.post("/api/v1/jobs", json=JOB)
    forced, other = (
        api.post("/api/v1/jobs/billing.close/trigger", json=body).json()["run_id"] for body in ({"force": True}, {})
    )
    with closing(Database(settings.database_url, pool_size=1)) as database:
        read = SqlLeaderStore(database).read_runs([forced, other])
    assert {run.run_id: run.forced for run in read} == {forced: True, other: False}
    answer = api.post("/api/v1/jobs/billing.close/trigger", json={"force": "yes"})
    assert [error["loc"] for error in answer.json()["errors"]] == [["force"]]


def test_the_page_starts_and_ends_freezes_and_keeps_what_was_typed(api: TestClient) -> None:
    typed = {"do": "start", "scope": "jobs", "names": "never.made, x", "reason": "a <b> deploy"}
    refused = submit(api, "/freezes", **typed, until="2020-01-01T00:00")
    assert refused.status_code == 422
    assert "give a time in the future" in refused.text
    for kept in ('value="never.made, x"', "a &lt;b&gt; deploy", '<option value="jobs" selected>'):
        assert kept in refused.text
    assert "there is no such job" in submit(api, "/freezes", **typed).text
    assert "leave it empty to freeze everything" in submit(api, "/freezes", **{**typed, "scope": "all"}).text.lower()
    done = submit(api, "/freezes", **{**typed, "scope": "queues", "names": "mail, sms", "during": "skip"})
    assert "is recalled" in api.get(done.headers["location"]).text
    shown = api.get("/freezes?status=active").text
    for text in ("queues mail, sms", "occurrences are skipped", "a &lt;b&gt; deploy"):
        assert text in shown
    assert 'href="/freezes"' in api.get("/audit").text
    number = str(api.get(FREEZES).json()["items"][0]["freeze_id"])
    ended = submit(api, "/freezes", do="end", freeze=number)
    assert "what waited is dispatched" in api.get(ended.headers["location"]).text
    assert "There is none of these" in api.get("/freezes?status=active").text
    assert "choose one of active, coming, past" in api.get("/freezes?status=x").text


def test_the_page_of_a_job_names_its_freeze_and_forces_a_run(api: TestClient, settings: Settings) -> None:
    api.post("/api/v1/jobs", json=JOB)
    api.post(FREEZES, json={"scope": {"tags": ["other"]}, "reason": "not this one"})
    freeze = api.post(FREEZES, json={"scope": {"tags": ["billing"]}, "reason": "a <b> deploy"}).json()
    page = api.get("/jobs/billing.close").text
    assert f"Held by freeze {freeze['freeze_id']} since" in page
    assert "a &lt;b&gt; deploy" in page
    assert "not this one" not in page
    done = submit(api, "/jobs/billing.close/trigger", force="on", overlap="", kwargs="")
    run_id = done.headers["location"].split("/runs/")[1].split("?")[0]
    with closing(Database(settings.database_url, pool_size=1)) as database:
        assert [run.forced for run in SqlLeaderStore(database).read_runs([run_id])] == [True]
