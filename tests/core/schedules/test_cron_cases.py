"""The collected cron facts: peers' tests, bug reports, and the real Debian cron daemon under a fake clock."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, Instant
from scheduler_service.core.index.expansion import Entry, expand
from scheduler_service.core.schedules.schedule import ParsedSchedule, next_after, parse_schedule
from tests.support.moments import at, texts

ROWS: Final = json.loads((Path(__file__).parents[2] / "vectors" / "cron.json").read_text())["rows"]
# Each with the reason that its user is given, in the manual too.
NOT_OURS: Final = {
    "x152": "four other rows want LW understood; so it is",
    "x130": "two other suites want full names understood; so they are",
    "x131": "two other suites want full names understood; so they are",
    "x153": "five other suites want 5L understood; so it is",
    "x156": "croner and Quartz want W in a list understood; so it is",
    "c0052": "its sources disagree and it states no answer",
    "c0245": "its sources disagree and it states no answer",
    "c1063": "its sources disagree and it states no answer",
}
FROM_START: Final = "expand_from_start_time"


def _options(row: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = row.get("croniter_options") or {}
    return options


ASKED: Final = [row for row in ROWS if row["id"] not in NOT_OURS and FROM_START not in _options(row)]
FIRING: Final = [row for row in ASKED if row.get("expected")]
REFUSED: Final = [row for row in ASKED if row.get("valid") is False or row["id"] == "c0039"]
TOLD: Final = [row for row in ASKED if row.get("rule")]


def _parsed(row: dict[str, Any]) -> ParsedSchedule:
    spec = {"kind": "cron", "expr": row["expr"], "timezone": row.get("tz") or "UTC"}
    if _options(row).get("day_or") is False:
        spec["day_match"] = "and"
    return parse_schedule(spec, job_id="", created_at=at("2026-11-27T10:00:00Z"))


def _next_runs(row: dict[str, Any]) -> list[Instant | None]:
    schedule, after = _parsed(row).schedule, at(row["start"])
    found = []
    for _ in row["expected"]:
        after = next_after(schedule, after)  # type: ignore[assignment]
        found.append(after)
        if after is None:
            break
    return found  # type: ignore[return-value]


def test_no_row_is_left_out_but_those_with_a_reason() -> None:
    left = {row["id"] for row in ROWS} - {row["id"] for row in [*FIRING, *REFUSED, *TOLD]}
    from_start = {row["id"] for row in ROWS if FROM_START in _options(row)}
    assert left == set(NOT_OURS) | from_start
    assert len(from_start) == 10


@pytest.mark.parametrize("row", FIRING, ids=lambda row: row["id"])
def test_a_line_fires_next_when_its_user_wants(row: dict[str, Any]) -> None:
    assert _next_runs(row) == [at(text) for text in row["expected"]], row.get("why")


@pytest.mark.slow
@pytest.mark.parametrize("row", FIRING, ids=lambda row: row["id"])
def test_the_expansion_of_many_fires_the_same(row: dict[str, Any]) -> None:
    expected = [at(text) for text in row["expected"]]
    schedule = _parsed(row).schedule
    for earlier, later in zip([at(row["start"]), *expected], expected, strict=False):
        # A window of two days at most: what lies before it is known to hold nothing.
        start = max(earlier + 1, later - 2 * DAY)
        found = expand([Entry(0, "job", schedule, start, later + 1)], start, later + 1)
        assert texts(found.times.tolist()) == texts([later])


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row["id"])
def test_a_line_that_cannot_be_meant_is_refused_by_its_field(row: dict[str, Any]) -> None:
    with pytest.raises(BadValue) as refused:
        _parsed(row)
    assert refused.value.field == "schedule.expr"
    assert refused.value.value == row["expr"]
    assert refused.value.allowed


@pytest.mark.parametrize("row", TOLD, ids=lambda row: row["id"])
def test_an_odd_line_is_taken_and_its_writer_told(row: dict[str, Any]) -> None:
    told = " ".join(_parsed(row).warnings)
    if "wrap" in row["rule"]:
        assert "wraps" in told
    elif row["id"] not in ("x069", "x092", "x101"):
        # Those three name no step that is too large.
        assert "the step is larger" in told
