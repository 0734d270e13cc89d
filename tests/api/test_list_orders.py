"""Lists in another order: over HTTP, on their pages by links of the headings, and by the client."""

import re
from html import unescape
from typing import Any

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import MINUTE, format_instant
from scheduler_service.sql.database import host_now

LATER = "2999-01-01T00:00:0{}Z"


@pytest.fixture
def waiting(api: TestClient) -> list[str]:
    """Three runs, by their time."""
    made = [
        api.post("/api/v1/runs", json={"task": f"pkg.task_{n}", "run_at": LATER.format(n)}).json() for n in (0, 1, 2)
    ]
    return [run["run_id"] for run in made]


def headings(page: str) -> dict[str, tuple[str, str | None]]:
    """The heading of each column that sorts: its link and its direction."""
    found = re.findall(r'<th scope="col"[^>]*?(?: aria-sort="(\w+)")?><a class="sorts" href="([^"]+)">([^<]+)', page)
    return {name: (unescape(link), direction or None) for direction, link, name in found}


def shown(page: str, ids: list[str]) -> list[str]:
    return sorted(ids, key=lambda run_id: page.index(f'href="/runs/{run_id}"'))


def test_runs_are_sorted_over_http_and_a_cursor_continues_in_the_order(api: TestClient, waiting: list[str]) -> None:
    for sort, expected in (("scheduled_at", waiting), ("-due_at", waiting[::-1]), ("due_at", waiting)):
        seen, cursor = [], None
        for _ in range(3):
            asked = {"sort": sort, "limit": 1, **({"cursor": cursor} if cursor else {})}
            page = api.get("/api/v1/runs", params=asked).json()
            seen += [run["run_id"] for run in page["items"]]
            cursor = page["next_cursor"]
        assert (seen, cursor) == (expected, None), sort
    refused = api.get("/api/v1/runs?sort=worker")
    assert (refused.status_code, "sort: " in refused.text, "scheduled_at" in refused.text) == (422, True, True)


def test_the_headings_of_runs_sort_and_turn_the_order_around(api: TestClient, waiting: list[str]) -> None:
    first = api.get("/runs?state=scheduled").text
    assert shown(first, waiting) == waiting[::-1]
    link, direction = headings(first)["Scheduled"]
    assert direction == "descending"
    turned = api.get(link).text
    assert shown(turned, waiting) == waiting
    assert headings(turned)["Scheduled"] == ("/runs?state=scheduled", "ascending")
    assert "all 3 that match" in turned, "the filter stays, also for what acts on all"
    longest = api.get(headings(turned)["Took"][0])
    assert (longest.status_code, headings(longest.text)["Took"][1]) == (200, "descending")
    assert '<option value="-duration" selected>' in longest.text


def test_a_list_of_runs_shows_the_column_that_sorts_it(api: TestClient, waiting: list[str]) -> None:
    assert "Finished" not in headings(api.get("/runs").text)
    sorted_by_end = api.get("/runs?sort=finished_at&col=task")
    assert headings(sorted_by_end.text)["Finished"][1] == "ascending"
    assert "col=finished" not in sorted_by_end.text, "it leaves with the order"


def test_an_order_that_is_not_known_is_told_at_its_field(api: TestClient, waiting: list[str]) -> None:
    refused = api.get("/runs?sort=worker")
    assert refused.status_code == 422
    assert 'id="wrong-sort"' in refused.text


@pytest.fixture
def jobs(api: TestClient, job: dict[str, Any]) -> None:
    """Jobs `c`, `a` and `b`, which run after 10, 20 and 30 minutes; `b` has run."""
    for minutes, name in ((10, "c"), (20, "a"), (30, "b")):
        at = format_instant(host_now() + minutes * MINUTE)
        queue = "slow" if name == "a" else "default"
        body = {**job, "job_id": f"job.{name}", "task": f"pkg.{name}", "queue": queue}
        assert api.post("/api/v1/jobs", json={**body, "schedule": {"kind": "once", "at": at}}).status_code == 201
    api.post("/api/v1/jobs/job.b/trigger")


def ids(api: TestClient, query: str) -> str:
    found = api.get(f"/api/v1/jobs?{query}").json()["items"]
    return "".join(one["job_id"][-1] for one in found)


def test_jobs_are_filtered_and_sorted_over_http(api: TestClient, jobs: None) -> None:
    assert ids(api, "queue=slow") == "a"
    assert ids(api, "task=pkg.b") == "b"
    assert ids(api, "last_state=scheduled&last_state=failed") == "b"
    assert (ids(api, "sort=-job_id"), ids(api, "sort=next_run"), ids(api, "sort=-next_run")) == ("cba", "cab", "bac")
    assert (ids(api, "sort=last_run"), ids(api, "sort=last_state&queue=default")) == ("bac", "bc")
    assert api.get("/api/v1/exports/jobs?queue=slow&format=json").json()[0]["job_id"] == "job.a"
    assert api.get("/api/v1/jobs?sort=title").status_code == 422


def test_what_filters_jobs_also_names_those_of_a_bulk_operation(api: TestClient, jobs: None) -> None:
    for wanted, number in (({"queue": "slow"}, 1), ({"task": "pkg.b"}, 1), ({"last_state": ["scheduled"]}, 1)):
        plan = api.post("/api/v1/jobs/bulk", json={"action": "pause", "filter": wanted, "dry_run": True}).json()
        assert (plan["matching"], plan["changing"]) == (number, number), wanted
    page = api.get("/jobs?last_state=scheduled&task=pkg.b").text
    assert "all 1 that match" in page
    preview = api.get("/bulk/new?on=jobs&action=pause&scope=all&last_state=scheduled&task=pkg.b&reason=audit")
    assert "Pause: 1 jobs" in preview.text
    begun = api.post("/api/v1/jobs/bulk", json={"action": "pause", "filter": {"last_state": ["scheduled"]}}).json()
    assert begun["filter"] == {"last_state": ["scheduled"]}
    assert ids(api, "paused=true") == "b"


def test_the_headings_of_jobs_sort_and_keep_the_filter(api: TestClient, jobs: None) -> None:
    page = api.get("/jobs?queue=default").text
    found = headings(page)
    assert found["Job"] == ("/jobs?queue=default&sort=-job_id", "ascending")
    by_next = api.get(found["Next"][0]).text
    assert page.index("job.b") < page.index("job.c")
    assert by_next.index("job.c") < by_next.index("job.b")
    assert headings(by_next)["Next"][1] == "ascending"
    assert headings(api.get("/jobs?sort=last_state").text)["Last"] == ("/jobs?sort=-last_state", "ascending")


def test_an_order_that_so_many_jobs_cannot_have_is_refused_at_its_field_and_not_offered(
    api: TestClient, jobs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_service.sql.jobs_by_next_run.SORTED", 2)
    monkeypatch.setattr("scheduler_service.api.pages.jobs.MOST_BY_NEXT_RUN", 2)
    refused = api.get("/jobs?sort=next_run")
    assert (refused.status_code, 'id="wrong-sort"' in refused.text) == (422, True)
    assert "narrow the list by queue" in refused.text
    assert set(headings(api.get("/jobs").text)) == {"Job", "Last"}
    assert set(headings(api.get("/jobs?queue=default").text)) == {"Job", "Last", "Next"}
    answer = api.get("/api/v1/jobs?sort=next_run")
    assert (answer.status_code, "sort" in answer.text) == (422, True)
