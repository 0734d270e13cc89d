"""The pages: what they show, and that no text of a user does more than be shown."""

import re
from contextlib import closing
from typing import Any

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import HOUR
from scheduler_service.config.settings import Settings
from scheduler_service.sql.database import Database
from scheduler_service.sql.lease import SqlLeaseStore
from tests.support.answering_leader import AnsweringLeader
from tests.support.counted import counted_page

NASTY = "<script>alert(1)</script>"


PAGES = (
    "/",
    "/?window=24h",
    "/jobs",
    "/runs",
    "/timeline?from=2026-01-01&to=2026-01-02",
    "/failures",
    "/workers",
    "/queues",
    "/queues/default",
    "/freezes",
    "/limits",
    "/monitors",
    "/calendars",
    "/calendar?view=day&date=2026-01-01",
    "/load",
    "/explain",
    "/explain?job_id=a.job&at=2026-01-01 00:00",
    "/audit",
    "/sessions",
    "/bulk",
    "/views",
    "/new-job",
    "/jobs/a.job",
    "/jobs/a.job/edit",
)


@pytest.fixture
def run(api: TestClient, job: dict[str, Any], leader: AnsweringLeader) -> dict[str, Any]:
    """A run of a job that was made for it."""
    assert api.post("/api/v1/jobs", json={**job, "title": "My title", "tags": ["red"]}).status_code == 201
    triggered: dict[str, Any] = api.post("/api/v1/jobs/a.job/trigger").json()
    return triggered


def test_the_first_page_shows_leader_coming_and_latest_runs(api: TestClient, run: dict[str, Any]) -> None:
    page = api.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for text in ("term 1", "/jobs/a.job", "data-countdown", run["run_id"]):
        assert text in page.text
    assert 'role="alert"' not in page.text


@pytest.mark.parametrize("path", [*PAGES, "/jobs/nobody", "/nowhere"])
def test_a_page_is_drawn_once_all_of_it_is_there(api: TestClient, path: str) -> None:
    """Drawn in pieces, on a slow machine, the navigation and all below it move as the rest comes in."""
    page = api.get(path, headers={"accept": "text/html"}).text
    (awaited,) = re.findall(r'<link rel="expect" href="#([^"]+)" blocking="render">', page.partition("</head>")[0])
    assert f'<footer id="{awaited}"' in page.rpartition("</main>")[2]


@pytest.mark.parametrize("path", PAGES)
def test_the_part_that_is_fetched_again_is_in_the_page(api: TestClient, run: dict[str, Any], path: str) -> None:
    def lines(text: str) -> list[str]:
        quiet = re.sub(r"\d+ (s|min) ago|in \d+ (s|min)|\bnow\b|\d+(\.\d+)? (ms|s)\b", "", text)
        return [line for line in quiet.splitlines() if line and not re.search("As of|csrf|messages", line)]

    counted_page(api, path)
    part = api.get(path, headers={"HX-Request": "true"})
    page = api.get(path)
    assert (part.status_code, page.status_code) == (200, 200)
    assert "<html" not in part.text
    assert set(lines(part.text)) <= set(lines(page.text))


def test_without_a_leader_the_page_says_what_to_do(api: TestClient) -> None:
    for path in ("/", "/workers"):
        page = api.get(path).text
        assert 'role="alert"' in page
        assert "itinerary leader" in page


@pytest.mark.slow
def test_a_leader_that_is_gone_is_named_with_when_it_was_last_heard(api: TestClient, settings: Settings) -> None:
    with closing(Database(settings.database_url, pool_size=1)) as database:
        leases = SqlLeaseStore(database)
        lease = leases.acquire(0, "gone", HOUR)
        assert lease is not None
        said = r"does not answer within a second; it was last seen (now|\d+ (s|min) ago)"
        assert re.search(said, api.get("/").text)
        leases.resign(lease)
    assert "Nobody leads; the last leader was seen" in api.get("/").text


def test_empty_pages_teach_what_to_do(api: TestClient) -> None:
    for path, text in (
        ("/", "jobs add"),
        ("/jobs", "jobs apply"),
        ("/runs", "itinerary enqueue"),
        ("/audit", "recorded"),
    ):
        assert text in api.get(path).text


def test_each_section_of_the_style_sheet_is_closed_before_the_next(api: TestClient) -> None:
    """A merge that loses a brace puts all pages after it under one width of the screen."""
    depth = 0
    for number, line in enumerate(api.get("/static/itinerary.css").text.splitlines(), 1):
        assert depth == 0 or not line.startswith("/*"), f"line {number} is within {depth} open braces"
        assert line.count('"') % 2 == 0, f"line {number} has an open quote, and its rule and the next are dropped"
        depth += line.count("{") - line.count("}")
    assert depth == 0


def test_no_text_of_a_user_becomes_markup(api: TestClient, job: dict[str, Any], leader: AnsweringLeader) -> None:
    kwargs = {"key": NASTY, NASTY: 1}
    nasty = {"title": NASTY, "description": NASTY, "tags": [NASTY], "kwargs": kwargs}
    assert api.post("/api/v1/jobs", json={**job, **nasty}).status_code == 201
    api.post("/api/v1/jobs/a.job/pause", json={"reason": NASTY})
    run_id = api.post("/api/v1/jobs/a.job/trigger").json()["run_id"]
    for path in (
        *PAGES,
        f"/runs/{run_id}",
        f"/runs?job_id={NASTY}",
        f"/jobs?q={NASTY}",
        f"/audit?actor={NASTY}",
        f"/x{NASTY}",
    ):
        page = api.get(path).text
        assert NASTY not in page, path
    assert "&lt;script&gt;" in api.get("/jobs/a.job").text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/jobs/nobody", 404),
        ("/runs?cursor=odd", 422),
        ("/jobs/no%00body", 404),
        ("/runs/nobody", 404),
        ("/runs?state=odd", 422),
        ("/runs?since=soon", 422),
        ("/jobs?cursor=odd", 422),
        ("/failures?within=1y", 422),
        ("/jobs/nobody/edit", 404),
    ],
)
def test_an_error_of_a_page_is_a_page_that_says_what_is_wrong(api: TestClient, path: str, status: int) -> None:
    page = api.get(path)
    assert page.status_code == status
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert 'role="alert"' in page.text
    assert "<h1>" in page.text


def test_a_page_of_what_is_not_there_names_it(api: TestClient) -> None:
    for path, name in (
        ("/jobs/nobody", "no job nobody"),
        ("/runs/nobody", "no run nobody"),
        ("/calendars/%00", "no calendar with such an id"),
        ("/queues/%00", "no queue with such a name"),
        ("/bulk/nope", "no bulk operation with such an id"),
    ):
        page = api.get(path).text
        assert f"<h1>There is {name}</h1>" in page
        assert "To the jobs" in page


@pytest.mark.parametrize(
    ("path", "field", "label"),
    [
        ("/runs?since=soon&queue=q", "since", "From (UTC)"),
        ("/runs?until=late&queue=q", "until", "To (UTC)"),
        ("/runs?since=2026-01-02&until=2026-01-01&queue=q", "until", "To (UTC)"),
        ("/jobs?paused=perhaps&q=q", "paused", "Show"),
        ("/jobs?tag=%00&q=q", "tag", "Tag"),
        ("/audit?subject=%00&action=q", "subject", "Job or run"),
        ("/audit?since=soon&action=q", "since", "From (UTC)"),
        ("/audit?since=2026-01-02&until=2026-01-01&action=q", "until", "To (UTC)"),
        ("/timeline?to=9999-12-31&queue=q", "to", "To (UTC)"),
        ("/timeline?to=1970-01-01 00:30&queue=q", "to", "To (UTC)"),
        ("/timeline?from=9999-12-31&queue=q", "from", "From (UTC)"),
        ("/explain?job_id=q&at=yesterday", "at", "At (UTC)"),
        ("/explain?job_id=q&at=2026-01-01 00:00", "job_id", "Job"),
        ("/explain?run_id=q", "run_id", "Run"),
        ("/jobs/a.job?at=q", "at", "At (UTC)"),
        ("/jobs/a.job/backfill?from=q&to=2026-01-01T00:00", "from", "From (UTC)"),
    ],
)
def test_a_filter_that_is_refused_is_shown_again_with_the_sentence_at_its_field(
    api: TestClient, run: dict[str, Any], path: str, field: str, label: str
) -> None:
    page = api.get(path)
    assert page.status_code == 422
    assert f'<a href="#field-{field}">{label}</a>: ' in page.text
    assert f'id="field-{field}" aria-invalid="true" aria-describedby="wrong-{field}"' in page.text
    assert f'<small class="wrong" id="wrong-{field}">' in page.text
    assert 'value="q"' in page.text or "/backfill" in path  # what was typed is kept; browsers read only times there
    assert 'hx-trigger="look"' not in page.text.split('id="seen"')[1].split(">")[0]


@pytest.mark.parametrize("path", ["/", "/jobs", "/runs", "/failures", "/workers", "/audit", "/new-job", "/docs"])
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
    loaded = re.findall(r'<(?:script|link|img)\b[^>]*\b(?:src|href)="([^"#]+)"', page)
    assert loaded
    for address in loaded:
        assert address.startswith("/static/")
        answer = api.get(address)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    sheets = re.findall(r'rel="stylesheet" href="([^"]+)"', page)
    blocking = re.findall(r"<script\b(?![^>]*\bdefer)[^>]*>", page)
    assert (path == "/docs") or (len(sheets) == 1 and not blocking)


def test_a_static_file_of_another_release_is_not_kept_for_long(api: TestClient) -> None:
    here = re.findall(r'href="(/static/[^"]+/all.css)"', api.get("/").text)[0]
    digest = here.split("/")[2]
    other = api.get(here.replace(digest, "0" * len(digest)))
    assert (other.status_code, other.headers["cache-control"]) == (200, "max-age=3600")
    assert other.text == api.get(here).text == api.get("/static/all.css").text
    for name in ("vendor/pico.min.css", "vendor/uplot.min.css", "itinerary.css"):
        assert api.get(f"/static/{name}").text in other.text
    assert api.get(f"/static/{digest}/../../config.py").status_code == 404
    assert api.get(f"/static/{digest}/no.css").status_code == 404
    assert api.post(here).status_code == 405


def test_static_files_are_compressed_and_pages_are_not(api: TestClient) -> None:
    """The size of a compressed page would tell of the token against forged requests that it holds."""
    style = api.get("/static/all.css", headers={"accept-encoding": "gzip"})
    assert style.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in api.get("/", headers={"accept-encoding": "gzip"}).headers


def test_every_vendored_file_has_its_licence_beside_it(api: TestClient) -> None:
    for name in ("pico.LICENSE.md", "htmx.LICENSE", "uplot.LICENSE", "swagger-ui.LICENSE"):
        assert api.get(f"/static/vendor/{name}").status_code == 200


def test_an_address_that_is_not_there_is_a_page_to_a_browser_and_a_document_to_a_program(api: TestClient) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    page = api.get(f"/odd{NASTY}", headers=browser)
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "To the overview" in page.text
    assert NASTY not in page.text
    for path, headers in (("/odd", {}), ("/api/v1/odd", browser)):
        answer = api.get(path, headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
