"""The timeline's picture: positions, rows, marks, ticks at local times; and the page's addresses."""

from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Instant, parse_instant
from scheduler_service.api.pages.time_axis import midnight, place, ticks
from scheduler_service.api.pages.timeline_chart import LaneChart, Links, lane_charts
from scheduler_service.api.services.timelines import Detail, Lane, Timeline
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.timeline import Cell, LaneKind, LaneRun, Span
from tests.support.statements import noted

NOW = 1_795_000_000 * SECOND
SPAN = Span(NOW - HOUR, NOW, 100)
UTC = ZoneInfo("UTC")
LINKS = Links(lambda run_id: f"/runs/{run_id}", lambda job_id: f"/jobs/{job_id}", lambda begin, end: f"{begin}-{end}")


def run(begin: Instant | None, end: Instant | None, state: RunState = RunState.COMPLETED) -> LaneRun:
    return LaneRun("a", f"run-{state}", state, begin or SPAN.since, begin, end)


def drawn(*runs: LaneRun, cells: tuple[Cell, ...] = ()) -> LaneChart:
    detail = Detail.RUNS if runs else Detail.COUNTS
    lane = Lane("a", 1, runs, cells)
    (chart,) = lane_charts(Timeline(LaneKind.JOB, SPAN, detail, [lane], 0, 1, 1, False), UTC, NOW, LINKS)
    return chart


def test_a_run_is_a_bar_from_its_start_to_its_end_within_the_picture() -> None:
    (bar,) = drawn(run(NOW - HOUR // 2, NOW - HOUR // 4)).bars
    assert (bar.x, bar.width, bar.state, bar.shape, bar.link) == (50, 25, "completed", "✓", "/runs/run-completed")
    assert bar.text.endswith("completed, 15 min: run-completed")
    (bar,) = drawn(run(NOW - 9 * HOUR, None, RunState.RUNNING)).bars
    assert (bar.x, bar.width, bar.shape, bar.point) == (0, 100, "●", False)
    (bar,) = drawn(run(None, None, RunState.MISSED)).bars
    assert (bar.x, bar.width, bar.shape, bar.point) == (0, 0, "!", True)


def test_runs_at_the_same_time_lie_below_each_other() -> None:
    begin = NOW - HOUR // 2
    chart = drawn(run(begin, begin + MINUTE), run(begin, begin + MINUTE), run(begin + MINUTE, begin + 2 * MINUTE))
    rows = [bar.y for bar in chart.bars]
    assert (rows[0], rows[1] > rows[0], rows[2]) == (3, True, 3)
    assert drawn(*[run(begin, NOW)] * 9).height == 4 * 18 + 6


def test_a_column_shows_what_failed_at_its_bottom_with_a_mark() -> None:
    chart = drawn(cells=(
        Cell("a", 0, RunState.COMPLETED, 99), Cell("a", 0, RunState.FAILED, 1), Cell("a", 50, RunState.SKIPPED, 1),
    ))  # fmt: skip
    failed, completed, skipped = chart.bars
    assert (failed.state, failed.shape, failed.y + failed.height) == ("failed", "✕", 21)
    assert (completed.state, completed.shape, completed.y + completed.height) == ("completed", "", failed.y)
    assert (skipped.x, skipped.state, skipped.height) == (50, "skipped", 5)
    assert completed.text.endswith("99 completed, 1 failed")
    assert completed.link == f"{SPAN.since}-{SPAN.since + 36 * SECOND}"


def test_what_is_planned_is_a_mark_of_its_own_unless_it_has_a_run() -> None:
    lane = Lane("a", 1, [run(None, None, RunState.SCHEDULED)], ())
    shown = Timeline(LaneKind.JOB, SPAN, Detail.RUNS, [lane], 0, 1, 1, False)
    (chart,) = lane_charts(shown, UTC, NOW, LINKS, {"a": [SPAN.since, SPAN.since + HOUR // 2]})
    assert [(bar.x, bar.state, bar.link) for bar in chart.bars] == [
        (0, "scheduled", "/runs/run-scheduled"), (50, "planned", "/jobs/a"),
    ]  # fmt: skip


def test_the_coming_times_of_a_job_stand_in_its_lane(api: TestClient, job: dict[str, Any]) -> None:
    assert api.post("/api/v1/jobs", json={**job, "schedule": {"kind": "interval", "every": "1m"}}).status_code == 201
    page = api.get("/timeline?within=1h&job_id=a.job").text
    assert page.count(" planned</title>") in (5, 6)
    assert "planned</title>" not in api.get("/timeline?within=1h&by=queue&job_id=a.job").text


def span(begin: str, length: int) -> Span:
    at = parse_instant(begin)
    return Span(at, at + length, 100)


@pytest.mark.parametrize(
    ("zone", "begin", "length", "texts"),
    [
        ("UTC", "2026-11-29T10:00:00Z", 10 * SECOND, ["10:00:00", "10:00:02", "10:00:04", "10:00:06", "10:00:08"]),
        ("Asia/Kathmandu", "2026-11-29T10:00:00Z", 3 * HOUR, ["16:00", "16:30", "17:00", "17:30", "18:00", "18:30"]),
        ("Europe/Berlin", "2026-10-24T22:00:00Z", DAY + HOUR,
         ["Sun 25 Oct", "03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00"]),
        ("Europe/Berlin", "2026-03-28T12:00:00Z", 3 * DAY, ["Sun 29 Mar", "Mon 30 Mar", "Tue 31 Mar"]),
        ("UTC", "2026-01-15T00:00:00Z", 90 * DAY, ["1 Feb", "1 Mar", "1 Apr"]),
    ],
)  # fmt: skip
def test_ticks_stand_at_round_local_times(zone: str, begin: str, length: int, texts: list[str]) -> None:
    assert [tick.text for tick in ticks(span(begin, length), ZoneInfo(zone))] == texts


def test_a_day_begins_at_the_end_of_the_gap_where_its_midnight_is_skipped() -> None:
    beirut = ZoneInfo("Asia/Beirut")  # clocks go from 00:00 to 01:00 there
    begin = midnight(date(2026, 3, 29), beirut)
    assert begin == parse_instant("2026-03-28T22:00:00Z")
    assert place(Span(begin, begin + DAY, 100), begin + DAY // 2) == 50


def test_each_view_is_an_address_that_keeps_its_filter(api: TestClient) -> None:
    page = api.get("/timeline?by=queue&within=6h&state=failed&queue=mails&tz=Asia/Kathmandu").text
    for changed in ("within=24h", "by=worker"):
        assert f"state=failed&amp;queue=mails&amp;tz=Asia%2FKathmandu&amp;{changed}" in page
    assert "Times in Asia/Kathmandu" in page
    for query, words in (
        ("from=x", "From (UTC)"),
        ("within=1y", "10m, 1h"),
        ("tz=Mars", "Time zone"),
        ("state=x", "States"),
    ):
        refused = api.get(f"/timeline?{query}")
        assert refused.status_code == 422
        assert words in refused.text


def test_the_jobs_of_all_lanes_are_read_in_one_statement(api: TestClient) -> None:
    for n in range(20):
        api.put(f"/api/v1/jobs/job-{n}", json={"task": "pkg.task", "schedule": {"kind": "interval", "every": "1h"}})
        api.post(f"/api/v1/jobs/job-{n}/trigger")
    with noted() as statements:
        page = api.get("/timeline?within=24h").text
    assert page.count('class="lane"') == 20
    assert page.count("planned") > 20
    assert len([one for one in statements if "FROM jobs" in one]) == 1


def test_bars_are_written_as_svg_with_every_text_escaped() -> None:
    odd = LaneRun("a", '<b>"&', RunState.FAILED, SPAN.since, SPAN.since, SPAN.since + HOUR // 2)
    written = drawn(odd).svg(Detail.RUNS)
    assert 'href="/runs/&lt;b&gt;&#34;&amp;" tabindex="-1" class="mark failed"' in written
    assert written.endswith(": &lt;b&gt;&#34;&amp;</title></a>")
    assert '<rect x="0.0%" width="50.0%" y="3" height="14"/><text x="0.0%" y="14">✕</text>' in written
    (missed,) = drawn(run(None, None, RunState.MISSED)).bars
    assert ('class="mark missed point"' in missed.svg(Detail.RUNS), "point" in missed.svg(Detail.COUNTS)) == (
        True,
        False,
    )
