"""The timeline over HTTP: lanes of runs, one by one or counted, and what a sample keeps exact."""

import re
from collections.abc import Iterator
from contextlib import closing

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import HOUR, SECOND, format_instant
from scheduler_service.api.services import timelines
from scheduler_service.config.settings import Settings
from scheduler_service.sql.database import Database
from tests.support.old_runs import keep, old_run

NOW = 1_795_000_000 * SECOND
TIME = f"since={format_instant(NOW - HOUR)}&until={format_instant(NOW)}"


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    with closing(Database(settings.database_url, pool_size=1)) as opened:
        yield opened


def fill(database: Database, number: int, state: str = "completed", **fields: object) -> None:
    rows = [old_run(NOW - 1 - n * SECOND, state=state, started_at=None, worker=None) for n in range(number)]
    keep(database, *({**row, **fields} for row in rows))


def test_few_runs_are_listed_in_their_lanes(api: TestClient, database: Database) -> None:
    fill(database, 2, job_id="few")
    fill(database, 3, job_id="many")
    seen = api.get(f"/api/v1/runs/timeline?{TIME}").json()
    assert [(lane["name"], lane["run_count"], len(lane["runs"])) for lane in seen["lanes"]] == [
        ("many", 3, 3), ("few", 2, 2),
    ]  # fmt: skip
    assert (seen["by"], seen["detail"], seen["run_count"], seen["run_count_is_exact"]) == ("job", "runs", 5, True)
    assert (seen["part_seconds"], seen["lane_count"], seen["next_lane"]) == (36, 2, None)
    one = seen["lanes"][1]["runs"][0]
    assert set(one) == {"run_id", "state", "scheduled_at", "started_at", "finished_at"}
    assert one["scheduled_at"] < seen["lanes"][1]["runs"][1]["scheduled_at"]


def test_many_runs_are_counted_by_state_and_lanes_are_paged(
    api: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "FEW", 4)
    monkeypatch.setattr(timelines, "LANES", 1)
    fill(database, 3, queue="q")
    fill(database, 2, queue="q", state="failed")
    fill(database, 1, queue="other")
    seen = api.get(f"/api/v1/runs/timeline?by=queue&{TIME}").json()
    assert (seen["detail"], seen["run_count"], seen["lane_count"], seen["next_lane"]) == ("counts", 6, 2, 1)
    (lane,) = seen["lanes"]
    assert lane["parts"] == [{"since": format_instant(NOW - 36 * SECOND), "counts": {"completed": 3, "failed": 2}}]
    rest = api.get(f"/api/v1/runs/timeline?by=queue&{TIME}&first_lane=1").json()
    assert ([lane["name"] for lane in rest["lanes"]], rest["next_lane"]) == (["other"], None)
    failed = api.get(f"/api/v1/runs/timeline?{TIME}&state=failed&queue=q").json()
    assert (failed["detail"], failed["run_count"]) == ("runs", 2)


def test_of_a_sample_what_did_not_succeed_is_counted_one_by_one(
    api: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "MOST_COUNTED", 100)
    monkeypatch.setattr(timelines, "_SAMPLED", 50)
    fill(database, 300, job_id="job")
    fill(database, 7, job_id="job", state="failed")
    seen = api.get(f"/api/v1/runs/timeline?{TIME}").json()
    assert (seen["detail"], seen["run_count_is_exact"], len(seen["lanes"])) == ("sample", False, 1)
    parts = [part["counts"] for part in seen["lanes"][0]["parts"]]
    assert sum(counts.get("failed", 0) for counts in parts) == 7
    assert 100 <= sum(counts.get("completed", 0) for counts in parts) <= 600


def test_a_time_that_is_none_is_refused_by_its_name(api: TestClient) -> None:
    for query in (f"since={format_instant(NOW)}&until={format_instant(NOW)}",
                  f"since=2020-01-01T00:00:00Z&until={format_instant(NOW)}"):  # fmt: skip
        answer = api.get(f"/api/v1/runs/timeline?{query}")
        assert (answer.status_code, answer.json()["errors"][0]["loc"]) == (422, ["until"])
    assert api.get("/api/v1/runs/timeline").json()["lanes"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=9999-12-30T00:00:00Z&to=9999-12-31T23:59:59Z", "from"),
        ("from=9998-12-31T00:00:00Z&to=9999-12-31T23:59:59Z", "to"),
        ("from=0001-01-01T00:00:00Z&to=0001-01-02T00:00:00Z&tz=America/New_York", "from"),
    ],
)
def test_the_page_names_the_field_of_a_time_that_it_cannot_step_from(api: TestClient, query: str, field: str) -> None:
    page = api.get(f"/timeline?{query}", headers={"accept": "text/html"})
    assert page.status_code == 422
    assert re.search(rf'name="{field}"[^>]*aria-invalid="true"', page.text)
    assert "give a time of the years 1970 to 9998" in page.text
