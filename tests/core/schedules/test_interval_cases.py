"""The collected facts of intervals, hourly minutes, one-offs and calendars."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import SECOND, Instant, format_instant
from scheduler_service.core.schedules.schedule import Schedule, parse_schedule, upcoming
from tests.support.moments import at, texts

ROWS: Final = json.loads((Path(__file__).parents[2] / "vectors" / "intervals.json").read_text())["rows"]
UNION: Final = "several intervals in one schedule are several jobs here"
LAST_RUN: Final = "occurrences never depend on when the last one ran"
NOT_OURS: Final = {
    "i002": UNION,
    "i031": "the rhythm is kept over midnight, not begun anew each day",
} | {row["id"]: LAST_RUN for row in ROWS if row["spec"].get("anchor") == "last_run" and row["id"] != "i028"}
ASKED: Final = [row for row in ROWS if row["id"] not in NOT_OURS]
# A rhythm below a second is refused, as its note asks of a service.
REFUSED: Final = [row for row in ASKED if not row["valid"] or row["id"] == "i028"]
FIRING: Final = [row for row in ASKED if row not in REFUSED]


def _spec(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "interval": _interval,
        "interval_with_bounds": _interval,
        "hourly_at_minute": lambda row: {"kind": "hourly", "minute": row["spec"]["minute"], "timezone": row["tz"]},
        "one_off": lambda row: {"kind": "once", "at": row["spec"]["at"], "timezone": row["tz"]},
        "calendar_interval": _calendar,
    }[row["kind"]](row)


def _interval(row: dict[str, Any]) -> dict[str, Any]:
    spec = row["spec"]
    anchors = {
        "epoch_utc": "1970-01-01T00:00:00Z",
        "start": row["start"],
        "first_run": spec.get("first_run"),
        "last_run": None,
        "local_midnight": None,
    }
    return {
        "kind": "interval",
        "every": f"{spec['every_s']}s",
        "offset": f"{spec['offset_s']}s",
        "anchor": anchors[spec["anchor"]],
        "timezone": row["tz"],
    }


def _calendar(row: dict[str, Any]) -> dict[str, Any]:
    spec = {"kind": "calendar", "timezone": row["tz"], **row["spec"]}
    # Several facts count from where they begin, and one names its date otherwise.
    spec["start"] = spec.pop("start_date", spec.get("start", row["start"][:10]))
    return spec


def _schedule(row: dict[str, Any]) -> Schedule:
    return parse_schedule(_spec(row), job_id="job", created_at=at(row["start"])).schedule


def _begins(row: dict[str, Any]) -> Instant | None:
    """Where an anchor is the start of a job, its first run is one period later."""
    spec = row["spec"]
    return at(row["start"]) + spec["every_s"] * SECOND if spec.get("anchor") == "start" else None


def _bound(row: dict[str, Any]) -> Instant | None:
    last = row["spec"].get("not_after")
    return None if last is None else at(last)


def test_the_rows_left_out_are_few_and_each_has_a_reason() -> None:
    assert len(NOT_OURS) == 9
    assert len(ROWS) == len(NOT_OURS) + len(REFUSED) + len(FIRING)


@pytest.mark.parametrize("row", FIRING, ids=lambda row: row["id"])
def test_a_rhythm_fires_next_when_its_user_wants(row: dict[str, Any]) -> None:
    asked = len(row["expected"]) + (1 if row.get("ends") else 0)
    found = upcoming(_schedule(row), at(row["start"]), asked, start_at=_begins(row), end_at=_bound(row))
    assert texts(found) == [format_instant(at(text)) for text in row["expected"]]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row["id"])
def test_a_rhythm_that_cannot_be_meant_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match=r"^schedule\."):
        _schedule(row)
