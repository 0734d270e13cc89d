"""Saved views over HTTP and on pages: whose they are, where they may lead, where they are found."""

import hashlib
import html
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from scheduler_service.config.settings import Settings
from tests.api.test_auth import bearer
from tests.support.forms import submit

VIEWS = "/api/v1/views"


def put(api: TestClient, name: str, address: str, who: str | None = None, **more: Any) -> Any:
    headers = None if who is None else bearer(who)
    return api.put(f"{VIEWS}/{name}", json={"address": address, **more}, headers=headers)


def test_a_view_is_saved_shown_changed_and_deleted(api: TestClient) -> None:
    saved = put(api, "failed today", "/runs?state=failed&state=missed&queue=&cursor=x&done=made&since=today")
    assert saved.status_code == 200
    assert saved.json()["address"] == "/runs?state=failed&state=missed&since=today"
    assert (saved.json()["personal"], saved.json()["saved_by"]) == (False, "loopback")
    assert api.get(f"{VIEWS}/failed%20today").json() == saved.json()
    put(api, "failed today", "/jobs")
    assert [view["address"] for view in api.get(VIEWS).json()["items"]] == ["/jobs"]
    assert [api.delete(f"{VIEWS}/failed%20today").status_code for _ in range(2)] == [204, 404]
    assert api.get(f"{VIEWS}/failed%20today").status_code == 404


def test_a_queue_has_views_of_its_own_page(api: TestClient) -> None:
    put(api, "mails by the week", "/queues/mail?window=7d")
    put(api, "others", "/queues/other?window=7d")
    page = api.get("/queues/mail?window=7d").text
    assert '<a href="/queues/mail?window=7d" aria-current="page">mails by the week</a>' in page
    assert "others</a>" not in page
    assert "/views?address=%2Fqueues%2Fmail%3Fwindow%3D7d" in page


@pytest.mark.parametrize("address", [
    "https://example.com/runs", "//example.com/runs", "/\\example.com", "/runs/../../x", "/elsewhere", "runs", "",
    "/sign-out", "/runs\n?state=failed", "javascript:alert(1)", "/runs?q=" + "x" * 2100, "/jobs/a.job", "/api/v1/runs",
    "/queues/", "/queues/a/b", "/queues/..", "/queues/mail%2f..",
])  # fmt: skip
def test_an_address_that_is_no_list_of_this_dashboard_is_refused(api: TestClient, address: str) -> None:
    answer = put(api, "elsewhere", address)
    assert (answer.status_code, answer.json()["errors"][0]["loc"]) == (422, ["address"]), answer.text
    page = submit(api, "/views", name="elsewhere", address=address)
    assert (page.status_code, "give path and query" in page.text.lower()) == (422, True)
    assert api.get(VIEWS).json()["items"] == []


@pytest.mark.parametrize("name", ["!", ".", "..", "a<b>", "x" * 61, "a\tb"])
def test_a_name_that_is_none_is_refused(api: TestClient, name: str) -> None:
    page = submit(api, "/views", name=name, address="/runs")
    assert (page.status_code, "give 1 to 60 letters" in page.text.lower()) == (422, True)
    assert api.get(VIEWS).json()["items"] == []


def test_nobody_in_particular_has_no_personal_views(api: TestClient) -> None:
    answer = put(api, "mine", "/runs", personal=True)
    assert (answer.status_code, "save it for all" in answer.json()["detail"]) == (422, True)
    assert put(api, "mine", "/runs", wrong=1).status_code == 422


def test_everybody_has_own_views_and_operators_save_those_of_all(
    client_of: Callable[[Settings], TestClient], settings: Settings
) -> None:
    def line(name: str, role: str, limits: str = "") -> str:
        return f"{name}:{role}:{hashlib.sha256(name.encode()).hexdigest()}{limits}"

    lines = [line("olga", "operator"), line("vera", "viewer"), line("lena", "operator", ":queues=ours"),
             line("emil", "enqueuer")]  # fmt: skip
    tokens = Settings(api_tokens=",".join(lines)).api_tokens  # type: ignore[arg-type]  # a text is read
    api = client_of(settings.model_copy(update={"api_tokens": tokens}))
    assert put(api, "list", "/runs", "vera").status_code == 403
    assert put(api, "list", "/runs", "olga").status_code == 200
    assert put(api, "list", "/jobs", "vera", personal=True).status_code == 200
    shown = {who: api.get(f"{VIEWS}/list", headers=bearer(who)).json()["address"] for who in ("olga", "vera")}
    assert shown == {"olga": "/runs", "vera": "/jobs"}
    listed = {who: len(api.get(VIEWS, headers=bearer(who)).json()["items"]) for who in ("olga", "vera")}
    assert listed == {"olga": 1, "vera": 2}
    assert [api.get(VIEWS, headers=bearer(who)).status_code for who in ("lena", "emil")] == [403, 403]
    assert put(api, "list", "/jobs", "lena", personal=True).status_code == 403
    assert api.delete(f"{VIEWS}/list", headers=bearer("vera")).status_code == 403
    assert api.delete(f"{VIEWS}/list?personal=true", headers=bearer("vera")).status_code == 204
    assert api.get(f"{VIEWS}/list", headers=bearer("vera")).json()["address"] == "/runs"
    assert api.get("/runs", headers=bearer("lena")).status_code == 200
    assert "Save this view" not in api.get("/runs", headers=bearer("lena")).text


def test_a_view_is_saved_from_its_list_and_found_above_it_and_in_the_palette(api: TestClient) -> None:
    listed = html.unescape(api.get("/runs?state=failed&queue=").text)
    assert 'href="/views?address=%2Fruns%3Fstate%3Dfailed"' in listed.replace("%2F", "%2F")
    asked = api.get("/views?address=%2Fruns%3Fstate%3Dfailed").text
    assert 'value="/runs?state=failed"' in asked
    saved = submit(api, "/views", name="what failed", address="/runs?state=failed")
    assert saved.headers["location"] == "/runs?state=failed&done=view-saved"
    above = api.get("/runs?state=failed&done=view-saved").text
    assert '<a href="/runs?state=failed" aria-current="page">what failed</a>' in above
    assert "what failed" not in api.get("/jobs").text, "it is a list of runs"
    assert 'data-address="/runs?state=failed"' in api.get("/parts/palette?q=what").text
    assert "what failed" in api.get("/views").text
    submit(api, "/views/delete", name="what failed")
    assert "No saved view yet" in api.get("/views").text


def test_the_part_that_is_fetched_again_asks_for_no_views(api: TestClient) -> None:
    assert "Save this view" not in api.get("/runs", headers={"HX-Request": "true"}).text
    assert "Save this view" not in api.get("/limits").text
