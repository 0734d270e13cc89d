"""Charts, durations and differences as pages show them: pure."""

from contextvars import copy_context
from urllib.parse import quote

import pytest
from fastapi import Request

from itinerary.protocol.instants import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Duration, parse_instant
from scheduler_service.api.pages.charts import duration_chart, health, spark
from scheduler_service.api.pages.moments import length
from scheduler_service.api.pages.policy_text import changes
from scheduler_service.api.pages.reader_zone import begin
from scheduler_service.api.services.balance_views import Chart, chart
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.history import Outcome

NOW = 1_800_000_000 * SECOND


def run(took: Duration | None, state: RunState = RunState.COMPLETED, ago: Duration = 0) -> Outcome:
    at = NOW - ago
    return Outcome(f"r{ago}", "job", state, at, None if took is None else at, None if took is None else at + took)


@pytest.mark.parametrize(
    ("duration", "words"),
    [
        (None, None),
        (-5, "0 ms"),
        (999 * MILLISECOND, "999 ms"),
        (SECOND, "1.0 s"),
        (59 * SECOND, "59 s"),
        (MINUTE, "1 min"),
        (2 * MINUTE + 5 * SECOND, "2 min 5 s"),
        (3 * HOUR + 59 * SECOND, "3 h"),
        (DAY + HOUR, "1 d 1 h"),
    ],
)
def test_durations_are_told_in_two_units_at_most(duration: Duration | None, words: str | None) -> None:
    assert length(duration) == words


def test_a_sparkline_ends_with_the_newest_run_at_its_right() -> None:
    chart = spark([run(SECOND), run(MILLISECOND, RunState.FAILED, SECOND)], places=30)
    older, newest = chart.bars
    assert (older.x, newest.x, chart.width) == (140, 145, 150)
    assert newest.height > older.height
    assert (older.mark, newest.mark) == (True, False)
    assert chart.text == "1 completed, 1 failed"
    assert spark([]).text == "no runs yet"


def test_the_timeout_is_drawn_where_it_is_in_reach() -> None:
    assert duration_chart([run(SECOND)], HOUR, 60).bound is None
    near = duration_chart([run(SECOND)], 2 * SECOND, 60)
    assert near.bound is not None
    assert near.bound < 100 - near.bars[0].height
    assert duration_chart([run(None, RunState.SKIPPED)], None, 60).longest is None


def test_success_counts_what_ended_well_or_badly_and_nothing_else() -> None:
    runs = [
        run(SECOND),
        run(3 * SECOND),
        run(None, RunState.MISSED),
        run(None, RunState.SKIPPED),
        run(None, RunState.RUNNING),
    ]
    found = health(runs, 100, NOW)
    assert found.success == pytest.approx(100 * 2 / 3)
    assert (found.over, found.median, found.p95, found.started, found.capped) == (3, "3.0 s", "3.0 s", 2, False)
    assert health([], 0, NOW).success is None


def test_a_difference_names_the_innermost_fields() -> None:
    before = {"retry": {"max": "1m", "jitter": True}, "tags": ["a"], "title": "T"}
    after = {"retry": {"max": "2m", "jitter": True}, "tags": [], "title": "T"}
    assert [(c.field, c.before, c.after) for c in changes(before, after)] == [
        ("retry.max", '"1m"', '"2m"'),
        ("tags", '[\n  "a"\n]', "[]"),
    ]


def test_the_peak_in_words_is_the_bar_that_is_marked_and_equal_hours_are_counted() -> None:
    begin = NOW - NOW % DAY + 10 * HOUR + 30 * MINUTE  # its first hour and its last are halves of 10:00 to 11:00
    shown = chart(begin, [3] * 2 + [2, 2, 1, 1] * 23 + [3] * 2)
    assert [bar.label for bar in shown.bars if bar.peak] == ["10:00"]
    assert (shown.bars[0].peak, shown.most, shown.columns) == (True, 6, 25)
    assert shown.peak_text == "runs from 10:00 UTC, and in 24 other hours"
    later = chart(begin, [0] * 2 + [1, 0, 0, 0] * 9 + [2, 2, 2, 2] + [1, 0, 0, 0] * 13 + [2, 2])
    assert [bar.label for bar in later.bars if bar.peak] == ["20:00"]
    assert (later.most, later.peak_text) == (8, "runs from 20:00 UTC")
    assert [bar.label for bar in shown.bars if bar.partial] == ["10:00", "10:00"]
    assert shown.bars[14].link.endswith("&date=2027-01-16#h0")
    none = chart(begin, [0] * 96)
    assert (none.most, none.peak_text, any(bar.peak for bar in none.bars)) == (0, "runs", False)


@pytest.mark.parametrize(
    ("timezone", "first", "labels", "partial", "last"),
    [
        ("UTC", "2026-10-25T00:15:00Z", ["00:00", "01:00", "02:00"], [0, 24], "date=2026-10-26#h0"),
        ("Asia/Kathmandu", "2026-10-25T00:15:00Z", ["06:00", "07:00", "08:00"], [], "date=2026-10-26#h5"),
        ("Europe/Berlin", "2026-10-24T23:00:00Z", ["01:00", "02:00", "02:00"], [], "date=2026-10-25#h24"),
    ],
)
def test_bars_are_hours_of_the_reader_s_clocks_and_lead_to_theirs(
    timezone: str, first: str, labels: list[str], partial: list[int], last: str
) -> None:
    asked = {"type": "http", "query_string": f"tz={timezone}".encode(), "headers": []}

    def drawn() -> Chart:
        begin(Request(asked))
        return chart(parse_instant(first), [1] * 96)

    shown = copy_context().run(drawn)
    assert [bar.label for bar in shown.bars[:3]] == labels
    assert [bar.place for bar in shown.bars if bar.partial] == partial
    assert shown.bars[-1].link == f"/calendar?view=day&{last.replace('#', '&tz=' + quote(timezone, safe='') + '#')}"
    assert [(cell.column, cell.row) for cell in shown.cells[:2]] in ([(0, 0), (0, 1)], [(0, 1), (0, 2)])


@pytest.mark.parametrize(
    ("highest", "loads"),
    [(1, [1]), (3, [1, 2, 3]), (7, [2, 4, 6]), (10, [5, 10]), (48, [10, 20, 30, 40]), (900, [200, 400, 600, 800])],
)
def test_the_axis_of_loads_has_round_figures(highest: int, loads: list[int]) -> None:
    begin = NOW - NOW % DAY
    shown = chart(begin, [highest, 0, 0, 0] + [0] * 92)
    assert [load for load, _ in shown.ticks] == loads
    assert shown.ticks[-1][1] == pytest.approx(100 - 100 * loads[-1] / highest, abs=0.01)
