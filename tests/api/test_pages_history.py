"""Pages over history: filters that are deep links, pages by key, failures in groups that are tried again together."""

import re
from typing import Any
from urllib.parse import parse_qsl

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete

from itinerary.protocol.instants import HOUR, MINUTE, SECOND, format_instant
from scheduler_service.api.pages import failures
from scheduler_service.config.settings import Settings
from scheduler_service.core.leader.commands import Apply, CreateRuns, Dispatch, Transition
from scheduler_service.core.model import MissedRange
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.ports.history import Trouble
from scheduler_service.sql.database import Database
from scheduler_service.sql.leader.store import SqlLeaderStore
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.run_pages import SqlHistoryStore
from scheduler_service.sql.tables import runs
from tests.support.forms import submit
from tests.support.old_runs import keep, old_run

pytestmark = pytest.mark.slow  # real processes, or many round trips


@pytest.fixture
def ended(api: TestClient, settings: Settings) -> list[str]:
    """Four runs of queue `red`: two failed alike, one failed otherwise, one was missed."""
    asked = [{"task": "pkg.task", "queue": "red", "kwargs": {"n": n}} for n in range(4)]
    ids = [run["run_id"] for run in api.post("/api/v1/runs/batch", json={"runs": asked}).json()["runs"]]
    database = Database(settings.database_url, pool_size=1)
    leases, leader = SqlLeaseStore(database), SqlLeaderStore(database)
    lease = leases.acquire(0, "test", HOUR)
    assert lease is not None
    leader.cursor(lease)
    moved = leader.dispatch_runs(lease, [Dispatch(run_id, 1, 1) for run_id in ids[:3]], lease.now + SECOND)
    assert not moved.refused
    leader.apply(lease, Apply(tuple(_end(run_id, place, lease.now) for place, run_id in enumerate(ids))))
    leases.resign(lease)
    database.close()
    return ids


@pytest.fixture
def left_out(api: TestClient, settings: Settings, job: dict[str, Any]) -> int:
    """When an outage of job `a.job` ended, over which 1,234 of its runs were left out."""
    api.post("/api/v1/jobs", json=job)
    database = Database(settings.database_url, pool_size=1)
    lease = SqlLeaseStore(database).acquire(0, "test", HOUR)
    assert lease is not None
    missed_range = MissedRange(
        "a.job", lease.now - 30 * MINUTE, lease.now - MINUTE, 1234, "misfire skip: later than 30s"
    )
    leader = SqlLeaderStore(database)
    leader.cursor(lease)
    leader.create_runs(lease, CreateRuns((), cursor=lease.now, missed_ranges=(missed_range,)))
    database.close()
    return missed_range.start


def _end(run_id: str, place: int, now: int) -> Transition:
    if place == 3:
        return Transition(run_id, 1, Event.MISS, RunState.MISSED, now, reason="too late")
    error = {"type": "ValueError" if place < 2 else "OSError", "message": f"no {place}", "traceback": "Traceback: x"}
    return Transition(run_id, 1, Event.FAIL, RunState.FAILED, now + 2 * SECOND, started_at=now, worker="w", error=error)


def test_failures_are_grouped_by_task_and_error(api: TestClient, ended: list[str]) -> None:
    page = api.get("/failures?within=1h").text
    for text in ("ValueError", "OSError", "missed", "no 1", ">2</a>", "Run 2 again", "Run 1 again"):
        assert text in page
    assert page.count('action="/failures/retry"') == 2
    overview = api.get("/").text
    for text in ("2 runs of", "failed for good in the last hour: ValueError: no", "was missed in the last hour"):
        assert text in overview
    assert overview.count('action="/failures/retry"') == 2


def test_the_count_of_a_group_leads_to_exactly_what_it_counts(api: TestClient, ended: list[str]) -> None:
    page = api.get("/failures?within=1h").text
    links = [link.replace("&amp;", "&") for link in re.findall(r'href="(/failures/runs\?[^"]*)">(?:\d+)</a>', page)]
    counts = [int(count) for count in re.findall(r'href="/failures/runs\?[^"]*">(\d+)</a>', page)]
    assert sorted(counts) == [1, 1, 2]
    listed = {link: set(re.findall(r'href="/runs/([^"]+)"', api.get(link).text)) for link in links}
    assert [len(listed[link]) for link in links] == counts
    assert set.union(*listed.values()) == set(ended)
    (of_two,) = [link for link, runs_listed in listed.items() if len(runs_listed) == 2]
    assert listed[of_two] == set(ended[:2])
    assert api.get("/failures/runs?within=1y").status_code == 422


# From an anchor of long ago: by default it is the midnight before the job was created.
EVERY_MINUTE = {"kind": "interval", "every": "1m", "anchor": "2026-01-01T00:00:00Z"}


def test_one_outage_is_one_row_and_is_backfilled_at_once(
    api: TestClient, settings: Settings, job: dict[str, Any]
) -> None:
    names = [f"job-{n}" for n in range(5)]
    for name in names:
        made = api.post("/api/v1/jobs", json={**job, "job_id": name, "schedule": EVERY_MINUTE})
        assert made.status_code == 201
    database = Database(settings.database_url, pool_size=1)
    lease = SqlLeaseStore(database).acquire(0, "test", HOUR)
    assert lease is not None
    minute = lease.now - lease.now % MINUTE
    of_one = [
        MissedRange(name, minute - 30 * MINUTE, minute - 26 * MINUTE + 1, 5, "misfire skip: late") for name in names
    ]
    earlier = MissedRange("job-0", minute - 50 * MINUTE, minute - 50 * MINUTE + 1, 1, "misfire skip: late")
    gone = MissedRange("gone", minute - 30 * MINUTE, minute - 30 * MINUTE + 1, 1, "misfire skip: late")
    leader = SqlLeaderStore(database)
    leader.cursor(lease)
    leader.create_runs(lease, CreateRuns((), cursor=lease.now, missed_ranges=(*of_one, earlier, gone)))
    database.close()
    page = api.get("/failures?within=1h").text
    links = [link.replace("&amp;", "&") for link in re.findall(r'href="(/failures/backfill\?[^"]+)"', page)]
    assert len(links) == 2  # two outages, the latest first
    looked = api.get(links[0]).text
    assert "Create 25 runs of 5 jobs" in looked
    assert "gone: no job gone" in looked
    assert api.get("/api/v1/runs").json()["items"] == []
    asked = dict(parse_qsl(links[0].partition("?")[2]))
    done = submit(api, "/failures/backfill", **asked).headers["location"]
    assert done == "/failures?within=7d&done=all-backfilled.25.5"
    assert "Runs created: 25, of so many jobs: 5." in api.get(done).text
    created_runs = api.get("/api/v1/runs").json()["items"]
    assert sorted({run["job_id"] for run in created_runs}) == names
    assert {run["scheduled_at"] for run in created_runs if run["job_id"] == "job-3"} == {
        format_instant(minute - n * MINUTE) for n in range(26, 31)
    }
    assert submit(api, "/failures/backfill", **asked).headers["location"].endswith("done=none-backfilled")
    assert "nothing left to run" in api.get(links[0]).text
    assert api.get("/failures/backfill?from=x&to=y").status_code == 422


def test_what_an_outage_left_out_is_told_where_one_looks_for_it(api: TestClient, left_out: int) -> None:
    said = "1,234 planned runs of 1 job"
    assert f"{said} left out in the last hour" in api.get("/").text
    for path in ("/failures?within=1h", "/jobs/a.job"):
        page = api.get(path).text
        assert "misfire skip: later than 30s" in page
        assert "Nothing failed" not in page
        link = page.partition('href="/explain?')[2].partition('"')[0].replace("&amp;", "&")
        assert "misfire" in api.get(f"/explain?{link}").text
    assert said in api.get("/failures?within=1h").text


def test_an_explanation_is_asked_for_by_job_and_time_or_by_run(
    api: TestClient, job: dict[str, Any], ended: list[str]
) -> None:
    api.post("/api/v1/jobs", json=job)
    assert "never due" in api.get("/explain?job_id=a.job&at=2026-01-01 00:00:30").text
    to_run = api.get(f"/explain?run_id= {ended[0]} ", follow_redirects=False)
    assert (to_run.status_code, to_run.headers["location"]) == (303, f"/runs/{ended[0]}#why")
    for asked in ("run_id=nobody", "job_id=a.job&at=soon", "job_id=no job&at=2026-01-01 00:00", "run_id=//x.example"):
        assert 'role="alert"' in api.get(f"/explain?{asked}").text


def test_of_many_groups_the_largest_are_shown_and_how_many_more_there_are(api: TestClient, settings: Settings) -> None:
    database = Database(settings.database_url, pool_size=1)
    with database.read() as connection:
        now = database.read_clock(connection)
    errors = [{"type": f"Error{n}", "message": "no", "traceback": ""} for n in [*range(103), 7, 7]]
    keep(database, *(old_run(now, state="failed", error=error) for error in errors))
    database.close()
    page = api.get("/failures?within=1h").text
    assert page.count('action="/failures/retry"') == 100
    assert "3 smaller groups are not shown" in page
    assert "Run 3 again" in page


def test_a_group_is_tried_again_once_however_often_that_is_asked(api: TestClient, ended: list[str]) -> None:
    group = {"within": "1h", "job_id": "", "task": "pkg.task", "error_type": "ValueError"}
    tried = submit(api, "/failures/retry", **group).headers["location"]
    assert tried.endswith("done=all-retried.2.0")
    assert "Run again: 2. Left in the group, not run again from here: 0." in api.get(tried).text
    assert submit(api, "/failures/retry", **group).headers["location"].endswith("done=none-retried")
    made = api.get("/api/v1/runs?state=scheduled").json()["items"]
    assert sorted(run["retry_of"] for run in made) == sorted(ended[:2])
    assert submit(api, "/failures/retry", **{**group, "within": "1y"}).status_code == 422


def test_a_run_that_is_pruned_meanwhile_is_left_out_of_its_group(
    api: TestClient, settings: Settings, ended: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    look = SqlHistoryStore.troubles

    def troubles(history: SqlHistoryStore, *within: Any) -> list[Trouble]:
        found = look(history, *within)
        database = Database(settings.database_url, pool_size=1)
        with database.write() as connection:
            connection.execute(delete(runs).where(runs.c.run_id == ended[0]))
        database.close()
        return found

    monkeypatch.setattr(SqlHistoryStore, "troubles", troubles)
    group = {"within": "1h", "job_id": "", "task": "pkg.task", "error_type": "ValueError"}
    assert submit(api, "/failures/retry", **group).headers["location"].endswith("done=all-retried.1.0")
    assert [run["retry_of"] for run in api.get("/api/v1/runs?state=scheduled").json()["items"]] == [ended[1]]


def test_a_run_is_shown_with_its_gaps_its_error_and_why(api: TestClient, ended: list[str]) -> None:
    page = api.get(f"/runs/{ended[2]}").text
    for text in ("OSError", "Traceback: x", "Dispatched", "Where its time went", "It is not retried"):
        assert text in page


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", {0, 1, 2, 3}),
        ("?state=failed", {0, 1, 2}),
        ("?state=missed&state=failed", {0, 1, 2, 3}),
        ("?state=&queue=red", {0, 1, 2, 3}),
        ("?queue=blue", set()),
        ("?job_id=nobody", set()),
        ("?until=2020-01-01 00:00", set()),
        ("?since=2020-01-01T00:00:00Z", {0, 1, 2, 3}),
    ],
)
def test_runs_are_filtered_by_deep_links(api: TestClient, ended: list[str], query: str, shown: set[int]) -> None:
    page = api.get(f"/runs{query}").text
    assert {place for place, run_id in enumerate(ended) if f"/runs/{run_id}" in page} == shown


def test_runs_are_paged_by_key_and_the_filter_goes_along(api: TestClient) -> None:
    api.post("/api/v1/runs/batch", json={"runs": [{"task": "t", "queue": "red"}] * 60})
    first = api.get("/runs?queue=red").text
    following = first.split('rel="next"')[0].rpartition('href="')[2].split('"')[0].replace("&amp;", "&")
    assert following.startswith("/runs?queue=red&cursor=")
    second = api.get(following).text
    assert (first.count('href="/runs/'), second.count('href="/runs/')) == (50, 10)
    assert 'rel="next"' not in second
    assert "First page" in second


@pytest.mark.parametrize(
    ("query", "shown"),
    [("", {"a.1", "a.2", "b.3"}), ("?q=a.", {"a.1", "a.2"}), ("?tag=odd", {"a.1", "b.3"}), ("?paused=true", {"a.2"}),
     ("?paused=false&q=b", {"b.3"}), ("?tag=none", set())],
)  # fmt: skip
def test_jobs_are_filtered_by_deep_links(api: TestClient, job: dict[str, Any], query: str, shown: set[str]) -> None:
    for name, tags in (("a.1", ["odd"]), ("a.2", []), ("b.3", ["odd"])):
        api.post("/api/v1/jobs", json={**job, "job_id": name, "tags": tags})
    api.post("/api/v1/jobs/a.2/pause", json={"reason": "why not"})
    page = api.get(f"/jobs{query}").text
    assert {name for name in ("a.1", "a.2", "b.3") if f'href="/jobs/{name}"' in page} == shown


def test_a_job_that_never_ran_and_never_will_is_told_of(api: TestClient, job: dict[str, Any]) -> None:
    over = {**job, "schedule": {"kind": "once", "at": "2020-01-01T00:00:00Z"}}
    api.post("/api/v1/jobs", json=over)
    assert "Never ran, and never will: a.job." in api.get("/").text


def test_why_a_job_did_not_run_is_told_on_its_page(api: TestClient, job: dict[str, Any]) -> None:
    api.post("/api/v1/jobs", json=job)
    assert 'class="verdict"' in api.get("/jobs/a.job?at=2026-01-01 00:00").text
    assert 'role="alert"' in api.get("/jobs/a.job?at=yesterday").text


def test_changes_are_listed_with_who_made_them_and_what_they_changed(api: TestClient, job: dict[str, Any]) -> None:
    api.post("/api/v1/jobs", json=job)
    api.patch("/api/v1/jobs/a.job", json={"title": "New name"})
    page = api.get("/audit?subject=a.job").text
    for text in ("job.patch", "loopback", "New name", "/jobs/a.job"):
        assert text in page
    assert "No change matches this filter" in api.get("/audit?actor=nobody").text


def test_a_group_of_more_than_one_click_takes_is_tried_again_by_the_next(
    api: TestClient, ended: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "_AT_ONCE", 1)
    group = {"within": "1h", "job_id": "", "task": "pkg.task", "error_type": "ValueError"}
    answers = [submit(api, "/failures/retry", **group).headers["location"].rpartition("=")[2] for _ in range(3)]
    assert answers == ["all-retried.1.1", "all-retried.1.0", "none-retried"]
    assert len(api.get("/api/v1/runs?state=scheduled").json()["items"]) == 2


def test_a_change_leads_to_what_was_changed_whatever_it_is_called(api: TestClient, job: dict[str, Any]) -> None:
    api.post("/api/v1/jobs", json={**job, "job_id": "adhoc_report"})
    run_id = api.post("/api/v1/jobs/adhoc_report/trigger").json()["run_id"]
    api.post(f"/api/v1/runs/{run_id}/cancel")
    api.post(f"/api/v1/runs/{run_id}/retry")
    one = api.post("/api/v1/runs", json={"task": "t"}).json()["run_id"]
    links = re.findall(r'data-label="What"><a href="([^"]+)"', api.get("/audit").text)
    assert links == [
        f"/runs/{one}",
        "/jobs/adhoc_report",
        f"/runs/{run_id}",
        "/jobs/adhoc_report",
        "/jobs/adhoc_report",
    ]


def test_the_audit_says_what_a_batch_held_and_what_was_created(api: TestClient, job: dict[str, Any]) -> None:
    runs = [{"task": "t", "run_at": "2030-01-01T00:00:00Z"} for _ in range(60)]
    created = api.post("/api/v1/runs/batch", json={"runs": runs}).json()
    first = next(iter(created["runs"]))["run_id"]
    page = api.get("/audit").text
    assert "<summary>60 runs</summary>" in page
    assert f'href="/runs/{first}"' in page
    assert "and 10 more" in page
    assert api.post("/api/v1/jobs", json={**job, "kwargs": {"password": "hidden-one"}}).status_code == 201
    api.delete("/api/v1/jobs/a.job")
    page = api.get("/audit").text
    assert "<summary>what was created</summary>" in page
    assert "<summary>what it was</summary>" in page
    assert "hidden-one" not in page


def test_the_interactive_document_follows_the_theme(api: TestClient) -> None:
    assert 'data-theme="auto"' in api.get("/docs").text
    api.cookies.set("itinerary_theme", "dark")
    assert '<html lang="en" class="dark-mode" data-theme="dark">' in api.get("/docs").text
