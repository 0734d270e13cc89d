"""The pages: what they show, and that no text of a user does more than be shown."""

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support.answering_leader import AnsweringLeader

NASTY = "<script>alert(1)</script>"


def test_the_first_page_shows_leader_jobs_and_runs(
    api: TestClient, job: dict[str, Any], leader: AnsweringLeader
) -> None:
    api.post("/api/v1/jobs", json={**job, "title": "My title"})
    run = api.post("/api/v1/jobs/a.job/trigger").json()
    page = api.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for text in ("term 1", "My title", "25 minutes", "itinerary.echo", run["run_id"]):
        assert text in page.text
    assert 'role="alert"' not in page.text


def test_the_part_that_is_fetched_again_is_in_the_page(api: TestClient) -> None:
    part = api.get("/parts/overview").text
    shown = [line for line in part.splitlines() if line and "As of" not in line]
    page = api.get("/").text
    assert all(line in page for line in shown)
    assert "<html" not in part


def test_without_a_leader_the_page_says_what_to_do(api: TestClient) -> None:
    page = api.get("/").text
    assert 'role="alert"' in page
    assert "itinerary leader" in page


def test_no_text_of_a_user_becomes_markup(api: TestClient, job: dict[str, Any], leader: AnsweringLeader) -> None:
    api.post("/api/v1/jobs", json={**job, "title": NASTY, "description": NASTY, "tags": [NASTY]})
    api.post("/api/v1/jobs/a.job/pause", json={"reason": NASTY})
    page = api.get("/").text
    assert NASTY not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2


@pytest.mark.parametrize("path", ["/", "/parts/overview", "/docs"])
def test_pages_run_only_their_own_scripts(api: TestClient, path: str) -> None:
    page = api.get(path)
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert re.search(r"<script(?![^>]*\bsrc=)|\bon\w+=|javascript:", page.text) is None


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_everything_that_a_page_loads_is_in_the_package(api: TestClient, path: str) -> None:
    page = api.get(path).text
    loaded = re.findall(r'<(?:script|link|img)\b[^>]*\b(?:src|href)="([^"]+)"', page)
    assert loaded
    for address in loaded:
        assert address.startswith("/static/")
        answer = api.get(address)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "max-age=3600"


def test_every_vendored_file_has_its_licence_beside_it(api: TestClient) -> None:
    for name in ("pico.LICENSE.md", "htmx.LICENSE", "swagger-ui.LICENSE"):
        assert api.get(f"/static/vendor/{name}").status_code == 200
