"""Limits over HTTP: defined, changed, shown with what the leader knows of their use, deleted."""

import html
import json
import re
from collections.abc import Callable
from typing import Any

from fastapi.testclient import TestClient

from scheduler_service.api.services.limit_figures import LimitFigures
from scheduler_service.config.settings import Settings
from scheduler_service.core.leader.messages import ControlChanged, Query
from tests.support.answering_leader import AnsweringLeader
from tests.support.forms import as_shown, submit
from tests.support.processes import wait_until

LIMITS = "/api/v1/limits"
STRIPE: dict[str, Any] = {
    "concurrency": 5, "rate": {"count": 90, "per": "10s"}, "per_key": True, "overrides": {"acme": {"concurrency": 20}},
    "description": "calls",
}  # fmt: skip
UNKNOWN = {"in_flight": None, "waiting": None, "waiting_is_exact": None, "busiest_keys": None}


def test_a_limit_is_defined_changed_and_deleted(api: TestClient) -> None:
    """Without a leader too: the use that it alone knows is null."""
    put = api.put(f"{LIMITS}/stripe", json=STRIPE)
    assert (put.status_code, put.json()) == (200, {"name": "stripe", **STRIPE, **UNKNOWN})
    assert api.get(f"{LIMITS}/stripe").json() == put.json()
    change = {"rate": None, "overrides": {"acme": None, "ü/1": {"rate": {"count": 1, "per": "1m"}}}}
    patched = api.patch(f"{LIMITS}/stripe", json=change).json()
    overrides = {"ü/1": {"rate": {"count": 1, "per": "1m"}}}
    assert patched == {**put.json(), "rate": None, "overrides": overrides}
    assert api.patch(f"{LIMITS}/stripe", json={"overrides": None}).json()["overrides"] == {}
    replaced = {"name": "stripe", **dict.fromkeys(STRIPE), "per_key": False, "overrides": {}, "description": ""}
    assert api.put(f"{LIMITS}/stripe", json={"concurrency": 1}).json() == {**replaced, "concurrency": 1, **UNKNOWN}
    api.put(f"{LIMITS}/api", json={"rate": {"count": 100_000, "per": "24h"}})
    first = api.get(f"{LIMITS}?limit=1").json()
    last = api.get(f"{LIMITS}?limit=1&cursor={first['next_cursor']}").json()
    assert [limit["name"] for page in (first, last) for limit in page["items"]] == ["api", "stripe"]
    assert last["next_cursor"] is None
    assert api.delete(f"{LIMITS}/stripe").status_code == 204
    assert api.get(f"{LIMITS}/stripe").status_code == 404
    actions = [entry["action"] for entry in api.get("/api/v1/audit?subject=stripe").json()["items"]]
    assert actions == ["limit.delete", "limit.put", "limit.patch", "limit.patch", "limit.put"]


def test_all_wrong_values_are_named_at_once_and_a_name_is_judged(api: TestClient) -> None:
    wrong = {"concurrency": float("nan"), "rate": {"count": 0, "per": "1s"}, "per_key": 1}
    answer = api.put(f"{LIMITS}/a:b", content=json.dumps({**wrong, "concurrency": 0}))
    assert [error["loc"][0] for error in answer.json()["errors"]] == ["name", "concurrency", "rate", "per_key"]
    assert api.put(f"{LIMITS}/api", content=json.dumps(wrong)).status_code in (400, 422), "no JSON has NaN"
    for name in ("a:b", "a%20b", "-"):
        for answer in (
            api.get(f"{LIMITS}/{name}"),
            api.patch(f"{LIMITS}/{name}", json={}),
            api.delete(f"{LIMITS}/{name}"),
        ):
            assert answer.status_code == 404
    assert api.patch(f"{LIMITS}/unknown", json={"concurrency": 1}).status_code == 404


def test_a_limit_that_a_job_names_is_a_conflict(api: TestClient) -> None:
    api.put(f"{LIMITS}/stripe", json=STRIPE)
    job = {
        "task": "billing.close",
        "schedule": {"kind": "hourly", "minute": 5},
        "limits": [{"name": "stripe", "key": "x"}],
    }
    assert api.put("/api/v1/jobs/billing.close", json=job).status_code == 201
    for answer in (
        api.delete(f"{LIMITS}/stripe"),
        api.patch(f"{LIMITS}/stripe", json={"per_key": False, "overrides": None}),
    ):
        assert answer.status_code == 409
        assert answer.json()["type"] == "urn:itinerary:problem:limit-in-use"
        assert "limit stripe is named by billing.close, so" in answer.json()["detail"]
    assert api.patch("/api/v1/jobs/billing.close", json={"limits": None}).status_code == 200
    assert api.delete(f"{LIMITS}/stripe").status_code == 204


def test_the_use_is_the_leader_s_and_it_hears_of_each_edit(api: TestClient, leader: AnsweringLeader) -> None:
    use = {"in_flight": 3, "waiting": 1_000, "waiting_is_exact": False,
           "busiest_keys": [{"key": "acme", "in_flight": 3, "waiting": 1_000}]}  # fmt: skip
    leader.limits = [{"name": "stripe", **use}]
    assert api.put(f"{LIMITS}/stripe", json=STRIPE).json() == {"name": "stripe", **STRIPE, **use}
    api.put(f"{LIMITS}/unused", json={"concurrency": 1})
    listed = api.get(LIMITS).json()["items"]
    assert [limit["in_flight"] for limit in listed] == [3, 0]
    assert listed[1]["busiest_keys"] == []
    api.patch(f"{LIMITS}/unused", json={"concurrency": 2})
    api.delete(f"{LIMITS}/unused")
    wait_until(lambda: leader.reported.count(ControlChanged()) == 4, what="the leader to hear of each edit")
    asked = [message for message in leader.reported if isinstance(message, Query)]
    assert {query.what for query in asked} == {"limits"}


def test_the_leader_is_asked_once_a_second_at_most() -> None:
    now, asked = [100.0], []

    def ask() -> dict[str, Any]:
        asked.append(now[0])
        return {"limits": [{"name": "stripe"}]} if len(asked) < 2 else {"error": "unknown query"}

    figures = LimitFigures(clock=lambda: now[0])
    for moment, found in (
        (100.0, {"stripe": {"name": "stripe"}}),
        (100.9, {"stripe": {"name": "stripe"}}),
        (101.0, None),
    ):
        now[0] = moment
        assert figures.by_name(ask) == found
    assert asked == [100.0, 101.0]


def test_roles_are_those_of_queues(client_of: Callable[[Settings], TestClient], settings: Settings) -> None:
    from tests.api.test_limited_tokens import digest, settings_with

    lines = [f"{name}:{role}:{digest(name)}{limits}" for name, role, limits in (
        ("v", "viewer", ""), ("o", "operator", ""), ("m", "operator", ":queues=mail"), ("e", "enqueuer", ""),
    )]  # fmt: skip
    api = client_of(settings_with(settings, *lines))
    wanted = {"v": (403, 404, 200), "o": (200, 200, 200), "m": (403, 403, 403), "e": (403, 403, 403)}
    for who, statuses in wanted.items():
        token = {"Authorization": f"Bearer {who}"}
        put = api.put(f"{LIMITS}/stripe", json=STRIPE, headers=token)
        got = [api.get(f"{LIMITS}{path}", headers=token).status_code for path in ("/stripe", "")]
        assert (put.status_code, *got) == statuses, who
    assert api.delete(f"{LIMITS}/stripe", headers={"Authorization": "Bearer v"}).status_code == 403


def edit_form(api: TestClient) -> dict[str, str]:
    return as_shown(api.get("/limits?edit=tenant").text.split('id="edit"')[1].split("</form>")[0])


def test_the_page_defines_edits_and_deletes_and_keeps_what_was_typed(api: TestClient) -> None:
    typed = {"do": "create", "name": "a:<b>", "concurrency": "x", "rate": "90/10s", "overrides": "", "description": ""}
    again = submit(api, "/limits", **typed)
    assert (again.status_code, 'value="a:&lt;b&gt;"' in again.text) == (422, True)
    assert "whole number such as 5" in again.text
    page = api.get(submit(api, "/limits", **{**typed, "name": "tenant", "concurrency": "2"}).headers["location"])
    assert "no run is dispatched by the older bounds any more" in page.text
    assert "2 at a time, 90 in 10s" in page.text
    taken = submit(api, "/limits", **{**typed, "name": "tenant", "concurrency": "9"})
    assert (taken.status_code, "there is a limit of this name" in taken.text.lower()) == (422, True)
    form = edit_form(api)
    lines = "acme=20\n\n a=b = 5,1/1m \nc=none"
    done = submit(api, "/limits", **{**form, "rate": "", "per_key": "on", "overrides": lines, "description": "<each>"})
    assert "for each key, 2 with other bounds" in api.get(done.headers["location"]).text
    overrides = {"acme": {"concurrency": 20}, "a=b": {"concurrency": 5, "rate": {"count": 1, "per": "1m"}}}
    assert api.get(f"{LIMITS}/tenant").json()["overrides"] == overrides
    older = submit(api, "/limits", **form)
    assert (older.status_code, "somebody changed it since" in older.text) == (409, True)
    assert "/limits" in api.get("/audit").text
    again = submit(api, "/limits", **{**edit_form(api), "overrides": "acme=0"})
    assert "a whole number from 1" in again.text
    assert api.get("/limits?edit=gone").status_code == 404
    page = api.get(submit(api, "/limits", do="delete", name="tenant").headers["location"])
    assert "There are no limits yet" in page.text


def test_an_edit_on_the_page_keeps_keys_that_it_cannot_show(api: TestClient) -> None:
    overrides = {"two\nlines": {"concurrency": 20}}
    api.put(f"{LIMITS}/tenant", json={"concurrency": 1, "per_key": True, "overrides": overrides})
    form = edit_form(api)
    assert "overrides" not in form
    assert submit(api, "/limits", **{**form, "concurrency": "3"}).status_code == 303
    stored = api.get(f"{LIMITS}/tenant").json()
    assert (stored["concurrency"], stored["overrides"]) == (3, overrides)


def test_the_page_shows_the_leader_s_figures(api: TestClient, leader: AnsweringLeader) -> None:
    key = {"key": "acme", "in_flight": 3, "waiting": 7}
    leader.limits = [
        {"name": "stripe", "in_flight": 3, "waiting": 1_000, "waiting_is_exact": False, "busiest_keys": [key]}
    ]
    api.put(f"{LIMITS}/stripe", json=STRIPE)
    page = api.get("/limits").text
    for text in ("more than 1,000", "3 in flight, 7 waiting", "5 at a time, 90 in 10s"):
        assert text in page


def test_the_figures_of_the_page_lead_to_their_runs(api: TestClient, leader: AnsweringLeader) -> None:
    key = {"key": "a&b/ü", "in_flight": 0, "waiting": 1}
    use = {"in_flight": 0, "waiting": 1, "waiting_is_exact": True, "busiest_keys": [key]}
    leader.limits = [{"name": "tenant", **use}, {"name": "stripe", **use, "busiest_keys": []}]
    api.put(f"{LIMITS}/tenant", json={"concurrency": 2, "per_key": True})
    api.put(f"{LIMITS}/stripe", json={"concurrency": 5})
    both = ["stripe", {"name": "tenant", "key": "a&b/ü"}]
    made = [
        api.post("/api/v1/runs", json={"task": "t", "limits": limits}).json()["run_id"]
        for limits in (both, ["stripe"], [{"name": "tenant", "key": "c"}])
    ]

    def runs_behind(cell: str, text: str) -> list[str]:
        row = api.get("/limits").text.split(f'id="limit-{cell}"')[1].split("</tr>")[0]
        links = re.findall(r'<a href="(/runs[^"]*)">([^<]*)</a>', row.replace("<code>", "").replace("</code>", ""))
        (link,) = (html.unescape(link) for link, shown in links if html.unescape(shown) == text)
        page = api.get(link).text
        return [run_id for run_id in made if run_id in page]

    assert runs_behind("stripe", "1") == made[:2]
    assert runs_behind("tenant", "1") == [made[0], made[2]]
    assert runs_behind("tenant", "0") == [], "in flight"
    assert runs_behind("tenant", "a&b/ü") == made[:1]
