"""The page of a job: durations by version, the coming weeks, two versions side by side."""

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import DAY, HOUR, SECOND, parse_instant
from scheduler_service.api.pages.coming_weeks import coming_weeks
from scheduler_service.api.pages.durations import by_version, drift
from scheduler_service.core.run_state import RunState
from scheduler_service.core.schedules.schedule import Schedule, parse_schedule
from scheduler_service.ports.history import Outcome
from tests.support.answering_leader import AnsweringLeader

NOW = parse_instant("2026-10-22T12:00:00Z")  # a Thursday


def ran(version: int | None, seconds: float | None) -> Outcome:
    end = None if seconds is None else NOW + int(seconds * SECOND)
    return Outcome("r", "j", RunState.COMPLETED, NOW, NOW, end, version)


def schedule(expr: str, timezone: str = "Europe/Berlin") -> Schedule:
    return parse_schedule({"kind": "cron", "expr": expr, "timezone": timezone}, job_id="j", created_at=NOW).schedule


def test_durations_are_told_by_version_the_newest_first() -> None:
    runs = [*(ran(2, n) for n in (4, 4, 5, 8)), *(ran(1, n) for n in (2, 2, 2)), ran(None, 90), ran(3, None)]
    new, old = by_version(runs)
    assert (new.version, new.runs, new.median, new.p95) == (2, 4, "5.0 s", "8.0 s")
    assert (old.version, old.runs, old.median, old.low, old.high) == (1, 3, "2.0 s", 250, 250)
    assert (new.low, new.high) == (500, 1000), "in thousandths of the longest bar"
    assert by_version([ran(None, 3)]) == []


@pytest.mark.parametrize(
    ("new", "old", "said"),
    [
        (6, 2, "Version 2 takes 3.0 times as long as version 1."),
        (1, 4, "Version 2 takes 75 % less than version 1."),
        (2.1, 2, None),
    ],
)
def test_a_drift_is_said_from_a_fifth_on(new: float, old: float, said: str | None) -> None:
    assert drift([ran(2, new)] * 3 + [ran(1, old)] * 3) == said
    assert drift([ran(2, new)] * 2 + [ran(1, old)] * 3) is None, "two runs say little"


def test_the_coming_weeks_are_days_of_the_job_s_zone() -> None:
    weeks = coming_weeks(schedule("30 2 * * *"), NOW, NOW, None)
    assert [number for _, number in weeks[:7]] == [19, 20, 21, 22, 23, 24, 25]
    shown = {square.text.split(":")[0]: square for square, _ in weeks}
    assert len(shown) == 35
    assert shown["Thu 22 Oct 2026"].level == 0, "today's was at night"
    assert shown["Sun 25 Oct 2026"].text == "Sun 25 Oct 2026: 1 run", "the hour that comes twice runs once"
    assert shown["Mon 19 Oct 2026"].text == "Mon 19 Oct 2026: over"
    assert (shown["Fri 23 Oct 2026"].column, shown["Fri 23 Oct 2026"].line) == (4, 0)


def test_the_coming_weeks_keep_within_pause_and_end() -> None:
    weeks = coming_weeks(schedule("0 * * * *"), NOW, NOW + DAY, NOW + DAY + 3 * HOUR)
    assert [square.text for square, _ in weeks if square.level] == ["Fri 23 Oct 2026: 2 runs"]
    often = parse_schedule({"kind": "cron", "expr": "*/1 * * * * *"}, job_id="j", created_at=NOW)
    assert coming_weeks(often.schedule, NOW, NOW, None) == (), "too many to count at each refresh"


def test_two_versions_are_compared(api: TestClient, job: dict[str, Any], leader: AnsweringLeader) -> None:
    api.post("/api/v1/jobs", json={**job, "kwargs": {"password": "old"}})
    for priority in (3, 7):
        api.put("/api/v1/jobs/a.job", json={**job, "priority": priority, "kwargs": {"password": f"new{priority}"}})
    page = api.get("/jobs/a.job?before=1&after=3").text
    table = page[page.index('id="compared"') :].split("</table>")[0]
    assert re.search(r"<code>priority</code>.*<del>5</del>.*<ins>7</ins>", table)
    assert "kwargs.password" in table
    assert "new7" not in page
    assert "say the same" in api.get("/jobs/a.job?before=2&after=2").text
    assert "Only the versions of this list" in api.get("/jobs/a.job?before=1&after=9").text
    assert api.get("/jobs/a.job?before=x&after=9").status_code == 422


def test_what_one_does_stands_above_what_was(api: TestClient, job: dict[str, Any], leader: AnsweringLeader) -> None:
    api.post("/api/v1/jobs", json={**job, "queue": "mail"})
    page = api.get("/jobs/a.job").text
    order = [page.index(f'id="{name}"') for name in ("run-now", "why", "changing", "next", "history", "versions")]
    assert order == sorted(order)
    assert 'href="/runs?queue=mail"' in page
