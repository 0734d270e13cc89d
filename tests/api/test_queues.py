"""Queues over HTTP and on the command line: described, paused, resumed, and the reason shown where a run waits."""

import json
import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from scheduler_service.config.settings import Settings
from scheduler_service.core.leader.messages import ControlChanged
from scheduler_service.sql.database import Database
from tests.support.answering_leader import AnsweringLeader
from tests.support.forms import as_shown, submit
from tests.support.processes import wait_until

QUEUES = "/api/v1/queues"
DEFAULTS: dict[str, Any] = {
    "name": "mail", "defined": False, "concurrency": None, "rate": None, "fair": False,
    "description": "", "paused": False, "pause_reason": None, "paused_at": None,
    "paused_by": None, "paused_until": None, "waiting": 0, "waiting_is_exact": True, "pending": 0, "running": 0,
    "in_flight_is_exact": True, "depth": 0, "oldest_age": None, "lag": None, "workers": None,
}  # fmt: skip


def test_a_queue_is_described_paused_and_resumed(api: TestClient) -> None:
    """Without a leader too: what only a leader knows is null."""
    assert api.get(f"{QUEUES}/mail").json() == DEFAULTS
    put = api.put(f"{QUEUES}/mail", json={"description": "to customers"})
    assert (put.status_code, put.json()) == (200, {**DEFAULTS, "defined": True, "description": "to customers"})
    run_id = api.post("/api/v1/runs", json={"task": "shop.mail", "queue": "mail"}).json()["run_id"]
    paused = api.post(f"{QUEUES}/mail/pause", json={"reason": "an incident", "until": "2999-01-01T00:00:00Z"}).json()
    assert (paused["paused"], paused["pause_reason"], paused["paused_by"]) == (True, "an incident", "loopback")
    assert (paused["paused_until"], paused["description"]) == ("2999-01-01T00:00:00Z", "to customers")
    assert (paused["waiting"], paused["running"], paused["pending"]) == (1, 0, 0)
    assert api.get(f"{QUEUES}/mail").json() == paused
    assert api.put(f"{QUEUES}/mail", json={}).json()["paused"], "no definition ends a pause"
    assert api.patch(f"{QUEUES}/mail", json={"description": "to all"}).json()["paused"]
    assert api.patch(f"{QUEUES}/mail", json={}).json()["description"] == "to all"
    listed = api.get(QUEUES).json()
    assert [(queue["name"], queue["paused"]) for queue in listed["items"]] == [("mail", True)]
    assert listed["next_cursor"] is None
    seen = api.get(f"/api/v1/runs/{run_id}/explain").json()
    texts = " ".join(because["words"] for because in seen["because"])
    assert seen["verdict"] == "paused"
    assert (
        f"Queue mail is paused since {paused['paused_at']} by loopback until 2999-01-01T00:00:00Z: an incident."
        in texts
    )
    resumed = api.post(f"{QUEUES}/mail/resume").json()
    assert (resumed["paused"], resumed["pause_reason"], resumed["paused_at"]) == (False, None, None)
    assert api.get(f"/api/v1/runs/{run_id}/explain").json()["verdict"] != "paused"
    actions = [entry["action"] for entry in api.get("/api/v1/audit?subject=mail").json()["items"]]
    assert actions == ["queue.resume", "queue.patch", "queue.put", "queue.pause", "queue.put"]


def test_a_put_replaces_the_definition_and_a_patch_changes_what_is_given(api: TestClient) -> None:
    bounds = {"concurrency": 5, "rate": {"count": 90, "per": "10s"}, "fair": True}
    assert api.put(f"{QUEUES}/mail", json=bounds).json() == {**DEFAULTS, "defined": True, **bounds}
    patched = api.patch(f"{QUEUES}/mail", json={"rate": None, "description": "to all"}).json()
    assert {name: patched[name] for name in (*bounds, "description")} == {
        **bounds, "rate": None, "description": "to all",
    }  # fmt: skip
    assert api.get(f"{QUEUES}/mail").json() == patched
    assert api.put(f"{QUEUES}/mail", json={"fair": False}).json() == {**DEFAULTS, "defined": True}
    entry = api.get("/api/v1/audit?subject=mail").json()["items"][1]
    assert (entry["action"], entry["before"]["rate"], entry["after"]["rate"]) == ("queue.patch", bounds["rate"], None)


@pytest.mark.parametrize(("call", "body", "field", "why"), [
    ("pause", {}, "reason", ""), ("pause", {"reason": ""}, "reason", "give the reason"),
    ("pause", {"reason": "x", "until": "2001-01-01T00:00:00Z"}, "until", "in the future"),
    ("pause", {"reason": "x", "waiting": "skip"}, "waiting", "known are reason, until"),
    (None, {"paused": True}, "paused", "known are concurrency, description, fair, rate"),
    (None, {"concurrency": 0}, "concurrency", "from 1 to 1000000"), (None, {"fair": 1}, "fair", "true or false"),
    (None, {"rate": {"count": 1, "per": "25h"}}, "rate", "from 1s to 1d"),
    (None, {"description": None}, "description", ""), (None, {"description": 1}, "description", ""),
])  # fmt: skip
def test_each_wrong_value_is_named(api: TestClient, call: str | None, body: Any, field: str, why: str) -> None:
    answer = api.put(f"{QUEUES}/mail", json=body) if call is None else api.post(f"{QUEUES}/mail/{call}", json=body)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["loc"][0] == field
    assert why in error["msg"]


def test_no_queue_has_such_a_name(api: TestClient) -> None:
    for path in (f"{QUEUES}/a%20b", f"{QUEUES}/-"):
        assert api.get(path).status_code == 404
        assert api.post(f"{path}/pause", json={"reason": "x"}).status_code == 404


def test_while_an_older_release_leads_whatever_it_would_not_heed_is_refused(
    api: TestClient, settings: Settings, leader: AnsweringLeader
) -> None:
    """Also where an old standby takes over, with queues, limits and freezes defined before."""
    limit, scope = "/api/v1/limits/stripe", {"scope": {"all": True}, "reason": "x"}
    api.put(limit, json={"concurrency": 1})
    freeze = f"/api/v1/freezes/{api.post('/api/v1/freezes', json=scope).json()['freeze_id']}"
    database = Database(settings.database_url, pool_size=1)
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE leases SET controls_term = NULL")
    database.close()
    for answer in (
        api.post(f"{QUEUES}/mail/pause", json={"reason": "x"}), api.post(f"{QUEUES}/mail/resume"),
        api.put(f"{QUEUES}/mail", json={"description": "x"}), api.patch(f"{QUEUES}/mail", json={"concurrency": 1}),
        api.put(limit, json={"concurrency": 2}), api.patch(limit, json={"concurrency": 2}), api.delete(limit),
        api.post("/api/v1/freezes", json={**scope, "reason": "y"}), api.post(f"{freeze}/end"),
    ):  # fmt: skip
        assert answer.status_code == 409, answer.request.url
        assert answer.json()["type"] == "urn:itinerary:problem:older-leader"
        assert "update every leader first" in answer.json()["detail"]


def test_the_leader_hears_of_each_edit(api: TestClient, leader: AnsweringLeader) -> None:
    api.post(f"{QUEUES}/mail/pause", json={"reason": "x"})
    api.post(f"{QUEUES}/mail/resume")
    api.put(f"{QUEUES}/mail", json={"description": "x"})
    names = [queue["name"] for queue in api.get(QUEUES).json()["items"]]
    assert names == ["default", "mail"], "the leader's own queues are listed too"
    first = api.get(f"{QUEUES}?limit=1").json()
    last = api.get(f"{QUEUES}?limit=1&cursor={first['next_cursor']}").json()
    assert [queue["name"] for page in (first, last) for queue in page["items"]] == names, "on whichever page"
    assert last["next_cursor"] is None
    assert json.dumps(api.get(f"{QUEUES}/default").json()["workers"]) == "1"
    wait_until(lambda: leader.reported.count(ControlChanged()) == 3, what="the leader to hear of each edit")


def test_the_page_pauses_and_resumes_and_keeps_what_was_typed(api: TestClient) -> None:
    api.post("/api/v1/runs", json={"task": "shop.mail", "queue": "mail"})
    typed = {"queue": "mail", "reason": "an <incident>", "until": "2001-01-01T00:00"}
    again = submit(api, "/queues", **typed)
    assert again.status_code == 422
    assert "in the future" in again.text
    assert 'value="an &lt;incident&gt;"' in again.text
    done = submit(api, "/queues", **{**typed, "until": ""})
    page = api.get(done.headers["location"])
    assert "nothing of the queue is dispatched" in page.text
    assert re.search(r"paused by loopback .*<small class=\"reason\">an &lt;incident&gt;", page.text)
    assert "/queues" in api.get("/audit").text
    typed = as_shown(api.get("/queues?edit=mail").text)
    assert (typed["queue"], typed["concurrency"], typed["rate"], typed["do"]) == ("mail", "", "", "define")
    again = submit(api, "/queues", **{**typed, "rate": "90 in 10s", "description": "<mails>", "fair": "on"})
    assert again.status_code == 422
    assert "give COUNT/TIME such as 90/10s" in again.text
    typed = as_shown(again.text)
    assert (typed["description"], typed["fair"]) == ("<mails>", "on")
    page = api.get(submit(api, "/queues", **{**typed, "rate": "90/10s", "concurrency": "5"}).headers["location"])
    assert "by these bounds from now on" in page.text
    assert "5 at a time, 90 in 10s" in page.text
    assert "paused by loopback" in page.text, "an edit ends no pause"
    older = submit(api, "/queues", **{**typed, "rate": "1/10s"})
    assert (older.status_code, "somebody changed it since" in older.text) == (409, True)
    page = api.get(submit(api, "/queues", queue="mail", do="resume").headers["location"])
    assert "what waited is dispatched" in page.text
    assert "paused by" not in page.text


def test_the_page_of_a_queue_shows_who_listens_what_is_in_it_and_how_to_start_a_worker(
    api: TestClient, leader: AnsweringLeader
) -> None:
    run_id = api.post("/api/v1/runs", json={"task": "t", "queue": "default"}).json()["run_id"]
    page = api.get("/queues/default")
    assert page.status_code == 200
    for text in ("celery@here", "celery@gone", run_id, "/parts/trends?window=6h&amp;queue=default"):
        assert text in page.text
    assert "celery@here" not in api.get("/queues/nobody").text
    assert "itinerary worker --app MODULE:APP -Q nobody" in api.get("/queues/nobody").text
    assert api.get("/queues/no%20queue").status_code == 404


def test_the_page_of_a_queue_pauses_and_resumes_and_comes_back_to_it(api: TestClient) -> None:
    asked = {"queue": "mails", "back": "queue", "reason": "the server is away"}
    paused = submit(api, "/queues", **asked)
    assert paused.headers["location"] == "/queues/mails?done=queue-paused"
    assert "the server is away" in api.get("/queues/mails").text
    resumed = submit(api, "/queues", queue="mails", back="queue", do="resume")
    assert resumed.headers["location"] == "/queues/mails?done=queue-resumed"
    assert "Paused by" not in api.get("/queues/mails").text
