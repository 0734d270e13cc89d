"""Lists in another order: over HTTP, on their pages by links of the headings, and by the client."""

import re
from html import unescape

import pytest
from fastapi.testclient import TestClient

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
