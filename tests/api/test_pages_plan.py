"""The calendar: days of every length, what is planned and what ran in its cells, and counts that take long."""

import threading
from contextlib import closing
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import DAY, HOUR, MINUTE, Instant, format_instant, parse_instant, to_datetime
from scheduler_service.api.pages.plan_days import a_month_on, day_edges, days_of_month, days_of_week, hour_edges
from scheduler_service.api.pages.plan_grid import Found, boxes, week_heat
from scheduler_service.api.services.limited import LimitedRuns
from scheduler_service.api.services.limited_timeline import LimitedTimeline
from scheduler_service.api.services.plans import PlanFilter, Plans
from scheduler_service.api.services.ran import in_cells
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.core.index.cell_counts import CellCount
from scheduler_service.core.samples import QueueSample, Sample, Step
from scheduler_service.core.token_limits import Limits
from scheduler_service.ports.stores import JobFilter, JobStore, Page
from scheduler_service.ports.timeline import Ends
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.samples import SqlSampleStore
from tests.support.counted import counted_page
from tests.support.led import Led
from tests.support.old_runs import keep, old_run

BERLIN, KATHMANDU, LORD_HOWE = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kathmandu"), ZoneInfo("Australia/Lord_Howe")


def test_a_month_is_shown_in_whole_weeks() -> None:
    days = days_of_month(date(2026, 8, 9))  # begins on a Saturday, ends on a Monday
    assert (days[0], days[-1], len(days)) == (date(2026, 7, 27), date(2026, 9, 6), 42)
    assert len(days_of_month(date(2027, 2, 1))) == 28
    assert days_of_week(date(2026, 11, 29))[0] == date(2026, 11, 23)
    assert [a_month_on(date(2026, 12, 31), n) for n in (-1, 1)] == [date(2026, 11, 1), date(2027, 1, 1)]


@pytest.mark.parametrize(
    ("zone", "day", "hours", "cells"),
    [
        (BERLIN, date(2026, 10, 25), 25, 25),
        (BERLIN, date(2026, 3, 29), 23, 23),
        (KATHMANDU, date(2026, 3, 29), 24, 24),
        (LORD_HOWE, date(2026, 4, 5), 24.5, 24),  # 01:30 to 02:00 comes twice there, and belongs to one cell
    ],
)
def test_a_day_has_the_hours_that_its_clocks_show(zone: ZoneInfo, day: date, hours: float, cells: int) -> None:
    edges = hour_edges([day], zone)
    assert edges[-1] - edges[0] == hours * HOUR
    assert (len(edges) - 1, [edges[0], edges[-1]]) == (cells, day_edges([day], zone))
    assert day_edges([date(2026, 3, 29)], KATHMANDU)[0] == parse_instant("2026-03-28T18:15:00Z")


def test_what_ran_stands_before_now_and_what_is_planned_after_it() -> None:
    begin = parse_instant("2026-10-24T22:00:00Z")
    edges = [begin, begin + HOUR, begin + 2 * HOUR, begin + 3 * HOUR]
    cells = [CellCount(edges[n], 10 + n, 1, (("job", 10 + n),)) for n in range(3)]
    ends = in_cells([(edges[0], Ends(1)), (edges[1] + MINUTE, Ends(2, 1)), (edges[1], Ends(0, 0, 4)),
                     (edges[0] - 1, Ends(9)), (edges[3], Ends(9))], edges)  # fmt: skip
    shown = boxes(Found(edges, cells, ends, {}, ()), BERLIN, edges[1] + MINUTE, str, lambda day: False)
    assert [box.planned.runs if box.planned else None for box in shown] == [None, 11, 12]
    assert [tuple(box.ends) for box in shown] == [(1, 0, 0), (2, 1, 4), (0, 0, 0)]
    assert [box.is_now for box in shown] == [False, True, False]
    assert [box.day for box in shown] == [date(2026, 10, 25)] * 3


def test_the_heat_of_a_day_with_an_hour_twice_adds_both_up() -> None:
    edges = hour_edges([date(2026, 10, 25)], BERLIN)
    cells = [CellCount(at, 1, 1, (("job", 1),)) for at in edges[:-1]]
    found = Found(edges, cells, [Ends()] * len(cells), {}, ())
    heat = week_heat(boxes(found, BERLIN, edges[0], str, lambda day: False), BERLIN, str)
    assert (heat.most, len(heat.cells), heat.days) == (2, 24, ("Sun 25",))
    assert [numbers for hour, numbers in heat.rows if hour in ("01:00", "02:00")] == [(1,), (2,)]
    spring = hour_edges([date(2026, 3, 29)], BERLIN)
    found = Found(spring, (), [Ends()] * 23, {}, ())
    heat = week_heat(boxes(found, BERLIN, spring[0], str, lambda day: False), BERLIN, str)
    assert dict(heat.rows)["02:00"] == (None,)


class SlowJobs:
    """A store of jobs that answers when it may."""

    def __init__(self, jobs: JobStore) -> None:
        self._jobs = jobs
        self.may_answer = threading.Event()
        self.asked = 0

    def list(self, wanted: JobFilter, limit: int, cursor: str | None) -> Page[Any]:
        self.asked += 1
        assert self.may_answer.wait(60)
        return self._jobs.list(wanted, limit, cursor)


def test_nobody_waits_long_for_a_count_and_it_is_made_once(
    api: TestClient, stores: Stores, job: dict[str, Any]
) -> None:
    assert api.post("/api/v1/jobs", json=job).status_code == 201
    slow, plans, now = SlowJobs(stores.jobs), Plans(), host_now()
    edges = [now, now + HOUR]
    for _ in range(2):
        assert plans.counted(slow, None, PlanFilter(), edges, now) is None  # type: ignore[arg-type]
    slow.may_answer.set()
    found = None
    while found is None:
        found = plans.counted(slow, None, PlanFilter(), edges, now)  # type: ignore[arg-type]
    assert (slow.asked, found.jobs, found.cells[0].runs >= 2, found.complete) == (1, 1, True, True)


def test_the_page_shows_planned_and_ended_runs_of_a_job(
    api: TestClient, stores: Stores, job: dict[str, Any], settings: Any
) -> None:
    assert api.post("/api/v1/jobs", json=job).status_code == 201
    now = host_now()
    database = Database(settings.database_url, pool_size=1)
    keep(database, *(old_run(now - n * MINUTE, job_id="a.job", state="failed") for n in range(3)))
    database.close()
    assert api.post("/api/v1/freezes", json={"scope": {"all": True}, "reason": "books"}).status_code == 201
    closed = {"timezone": "UTC", "rules": [{"weekly": [{"days": ["mon"]}], "name": "Mondays"}]}
    assert api.put("/api/v1/calendars/closed", json=closed).status_code == 200
    day = format_instant(now)[:10]
    of_day = api.get(f"/calendar?view=day&date={day}&job=a.job").text
    assert of_day.count("/runs?state=failed") in (1, 2)  # two where an hour began meanwhile
    later = format_instant(now + 2 * DAY)[:10]
    page = counted_page(api, f"/calendar?view=day&date={later}&job=a.job")
    assert "<b>2</b> planned" in page or "<b>3</b> planned" in page
    for view in ("month", "week"):
        page = api.get(f"/calendar?view={view}").text
        assert "closed, Mondays" in page
        assert "Freeze 1: books" in page
    assert "What ran is not counted by tags" in api.get("/calendar?tag=x").text


def test_a_wrong_field_is_named(api: TestClient) -> None:
    for query, words in (("date=x", "give a day"), ("job=nobody", "no such job"), ("date=0001-01-01", "give a day")):
        answer = api.get(f"/calendar?{query}")
        assert answer.status_code == 422
        assert words in answer.text


def test_a_limited_token_counts_the_ends_of_its_own_runs(stores: Stores, settings: Any) -> None:
    now = host_now()
    with closing(Database(settings.database_url, pool_size=1)) as database:
        for queue in ("mine", "theirs"):
            ended = [old_run(now - n * MINUTE, job_id="a.job", queue=queue, state=state)
                     for n, state in ((1, "failed"), (2, "completed"), (70, "missed"), (200, "completed"))]  # fmt: skip
            keep(database, *ended)
    own = LimitedTimeline(LimitedRuns(stores.runs, Limits(queues=("mine",))))
    edges = [now - 2 * HOUR, now - HOUR, now]
    assert own.ends("a.job", edges, 100) == ([(0, 0, 1), (1, 1, 0)], None)
    assert own.ends("another", edges, 100) == ([(0, 0, 0)] * 2, None)
    cut = own.ends("a.job", edges, 2)
    assert (cut.ends, cut.since) == ([(0, 0, 0), (1, 1, 0)], now - 2 * MINUTE)


def test_the_load_of_today_stands_in_both_weeks_without_being_counted_twice(
    api: TestClient, stores: Stores, job: dict[str, Any], settings: Any
) -> None:
    assert api.post("/api/v1/jobs", json={**job, "schedule": {"kind": "interval", "every": "1h"}}).status_code == 201
    now = host_now()
    with closing(Database(settings.database_url, pool_size=1)) as database:
        lease = Led(database).lease
        ended = Sample(now - 10 * MINUTE, 1, "v", QueueSample(completed=7), (0,) * 17, 1, 0)
        SqlSampleStore(database).keep(lease, [(Step.TEN_MINUTES, ended)])
    coming, past = counted_page(api, "/load").split("The past week hour by hour")
    assert f"{at_hour(now - 10 * MINUTE)}: 7 runs</title>" in past
    assert f"{at_hour(now + HOUR)}: 1 run</title>" in coming
    assert "7 runs</title>" not in coming
    assert f"{at_hour(now + HOUR)}: 1 run</title>" not in past


def at_hour(at: Instant) -> str:
    wall = to_datetime(at)
    return f"{wall:%a} {wall.day} {wall:%b}, {wall:%H}:00"
