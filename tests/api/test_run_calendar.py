"""The calendar of runs over HTTP: the cells that the calendar page shows."""

from contextlib import closing
from typing import Any

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import DAY, MINUTE, format_instant
from scheduler_service.config.settings import Settings
from scheduler_service.sql.database import Database, host_now
from tests.support.old_runs import keep, old_run
from tests.support.processes import wait_until


def counted(api: TestClient, query: str = "") -> dict[str, Any]:
    """The answer once what is planned is counted."""

    def asked() -> dict[str, Any] | None:
        found: dict[str, Any] = api.get(f"/api/v1/runs/calendar?{query}").json()
        return None if found["planned_is_complete"] is None else found

    return wait_until(asked, what="the plan") or {}


def test_a_day_has_what_is_planned_and_what_ended(api: TestClient, job: dict[str, Any], settings: Settings) -> None:
    hourly = {**job, "schedule": {"kind": "interval", "every": "1h"}, "tags": ["finance"]}
    assert api.post("/api/v1/jobs", json=hourly).status_code == 201
    now = host_now()
    with closing(Database(settings.database_url, pool_size=1)) as database:
        keep(database, *(old_run(now - n * MINUTE, job_id="a.job", state="failed") for n in range(3)))
    assert api.post("/api/v1/freezes", json={"scope": {"all": True}, "reason": "books"}).status_code == 201
    closed = {"timezone": "UTC", "rules": [{"date": format_instant(now + DAY)[:10], "name": "Inventory"}]}
    assert api.put("/api/v1/calendars/plant", json=closed).status_code == 200
    found = counted(api, f"date={format_instant(now - DAY)[:10]}&days=3")
    yesterday, today, tomorrow = found["cells"]
    assert (found["timezone"], found["unit"], found["planned_is_complete"]) == ("UTC", "day", True)
    assert (tomorrow["planned"], tomorrow["planned_jobs"]) == (24, 1)
    assert tomorrow["busiest"] == [{"job_id": "a.job", "runs": 24}]
    assert (tomorrow["closed_by"], tomorrow["freezes"], today["closed_by"]) == (["plant, Inventory"], [1], [])
    assert (yesterday["planned"], yesterday["busiest"], yesterday["freezes"]) == (0, [], [])
    assert (tomorrow["date"], tomorrow["since"]) == (format_instant(now + DAY)[:10], today["until"])
    of_job = counted(api, f"date={format_instant(now - DAY)[:10]}&days=3&job_id=a.job")
    assert sum(cell["failed"] for cell in of_job["cells"]) == 3
    of_tag = counted(api, "tag=finance&days=1")["cells"][0]
    assert (of_tag["completed"], of_tag["failed"], of_tag["missed"]) == (None, None, None)


def test_hours_are_those_of_the_zone(api: TestClient) -> None:
    found = counted(api, "date=2026-03-29&days=1&unit=hour&timezone=Europe/Berlin")
    assert (len(found["cells"]), found["planned_is_complete"]) == (23, True)
    assert (found["cells"][0]["since"], found["cells"][-1]["until"]) == ("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z")
    assert {cell["date"] for cell in found["cells"]} == {"2026-03-29"}


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("date=x", 422, "2026-12-01"), ("unit=hour&days=8", 422, "at most 7 days"), ("days=43", 422, "42"),
        ("timezone=Mars", 422, "timezone"), ("job_id=nobody", 404, "nobody"), ("unit=week", 422, "unit"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(api: TestClient, query: str, status: int, words: str) -> None:
    answer = api.get(f"/api/v1/runs/calendar?{query}")
    assert answer.status_code == status
    assert words in answer.text
