"""What a schedule's spec may hold, what it becomes when stored, and how it is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.protocol.errors import BadValue
from scheduler_service.core.schedules.schedule import canonical_spec, parse_schedule
from tests.support.moments import at

MADE = at("2026-11-27T10:00:00Z")


@pytest.mark.parametrize(
    ("spec", "stored"),
    [
        (
            {"kind": "cron", "expr": " 0  2 1 * * "},
            {"kind": "cron", "expr": "0 2 1 * *", "timezone": "UTC", "day_match": "or", "dst_gap": "next_valid",
             "dst_fold": "first"},
        ),
        ({"kind": "hourly", "minute": 17}, {"kind": "hourly", "minute": 17, "timezone": "UTC"}),
        (
            {"kind": "interval", "every": "PT25M", "offset": "120s"},
            {"kind": "interval", "every": "25m", "offset": "2m", "anchor": None, "balanced": False, "pinned": False,
             "timezone": "UTC"},
        ),
        (
            {"kind": "calendar", "unit": "month", "days": [-1, 15, 15], "at": ["12:30", "05:30"]},
            {"kind": "calendar", "every": 1, "unit": "month", "at": ["05:30", "12:30"], "days": [15, -1],
             "weekdays": [], "start": None, "timezone": "UTC"},
        ),
        ({"kind": "once", "at": "2026-12-01T11:00:00+01:00"}, {"kind": "once", "at": "2026-12-01T10:00:00Z"}),
        (
            {"kind": "once", "at": "2026-12-01T11:00", "timezone": "Europe/Berlin"},
            {"kind": "once", "at": "2026-12-01T10:00:00Z"},
        ),
    ],
)  # fmt: skip
def test_a_spec_is_stored_with_every_default_and_then_stays_as_it_is(
    spec: dict[str, Any], stored: dict[str, Any]
) -> None:
    assert canonical_spec(spec) == stored
    assert canonical_spec(stored) == stored
    assert parse_schedule(spec, job_id="job", created_at=MADE).spec == stored
    assert parse_schedule(stored, job_id="job", created_at=MADE).spec == stored


BAD: list[tuple[Any, str]] = [
    ("0 2 * * *", "schedule"),
    ({}, "schedule.kind"),
    ({"kind": "weekly"}, "schedule.kind"),
    ({"kind": "cron", "expr": "* * * * *", "tz": "UTC"}, "schedule.tz"),
    ({"kind": "cron"}, "schedule.expr"),
    ({"kind": "cron", "expr": 5}, "schedule.expr"),
    ({"kind": "cron", "expr": "* * * * *", "timezone": "Mars/Olympus"}, "schedule.timezone"),
    ({"kind": "cron", "expr": "* * * * *", "timezone": "../../etc/passwd"}, "schedule.timezone"),
    ({"kind": "cron", "expr": "* * * * *", "timezone": "localtime"}, "schedule.timezone"),
    ({"kind": "cron", "expr": "* * * * *", "timezone": None}, "schedule.timezone"),
    ({"kind": "cron", "expr": "* * * * *", "day_match": "xor"}, "schedule.day_match"),
    ({"kind": "cron", "expr": "* * * * *", "dst_gap": True}, "schedule.dst_gap"),
    ({"kind": "cron", "expr": "* * * * *", "dst_fold": "never"}, "schedule.dst_fold"),
    ({"kind": "hourly"}, "schedule.minute"),
    ({"kind": "hourly", "minute": 60}, "schedule.minute"),
    ({"kind": "hourly", "minute": True}, "schedule.minute"),
    ({"kind": "hourly", "minute": 17, "every": "1h"}, "schedule.every"),
    ({"kind": "interval"}, "schedule.every"),
    ({"kind": "interval", "every": "0s"}, "schedule.every"),
    ({"kind": "interval", "every": "500ms"}, "schedule.every"),
    ({"kind": "interval", "every": "99999d"}, "schedule.every"),
    ({"kind": "interval", "every": "1h", "offset": "1h"}, "schedule.offset"),
    ({"kind": "interval", "every": "1h", "anchor": "noon"}, "schedule.anchor"),
    ({"kind": "interval", "every": "1h", "anchor": "2027-03-28T02:30:00", "timezone": "Europe/Berlin"},
     "schedule.anchor"),
    ({"kind": "interval", "every": "1h", "balanced": True, "offset": "5m"}, "schedule.offset"),
    ({"kind": "interval", "every": "1h", "balanced": True, "anchor": "2026-11-27T00:00:00Z"}, "schedule.anchor"),
    ({"kind": "interval", "every": "1h", "pinned": True}, "schedule.pinned"),
    ({"kind": "interval", "every": "1h", "balanced": "yes"}, "schedule.balanced"),
    ({"kind": "calendar", "unit": "hour"}, "schedule.unit"),
    ({"kind": "calendar", "every": 0}, "schedule.every"),
    ({"kind": "calendar", "at": ["24:00"]}, "schedule.at"),
    ({"kind": "calendar", "at": "05:30"}, "schedule.at"),
    ({"kind": "calendar", "unit": "day", "days": [1]}, "schedule.days"),
    ({"kind": "calendar", "unit": "month", "days": [32]}, "schedule.days"),
    ({"kind": "calendar", "unit": "month", "every": 12, "days": [30], "start": "2027-02-01"}, "schedule.days"),
    ({"kind": "calendar", "unit": "week", "weekdays": ["monday"]}, "schedule.weekdays"),
    ({"kind": "calendar", "weekdays": ["mon"]}, "schedule.weekdays"),
    ({"kind": "calendar", "start": "2027-02-30"}, "schedule.start"),
    ({"kind": "calendar", "start": "tomorrow"}, "schedule.start"),
    ({"kind": "once"}, "schedule.at"),
    ({"kind": "once", "at": "2027-03-28T02:30:00"}, "schedule.at"),
    ({"kind": "once", "at": "2027-03-28T02:30:00", "timezone": "Europe/Berlin"}, "schedule.at"),
    ({"kind": "once", "at": "2011-12-30T12:00:00", "timezone": "Pacific/Apia"}, "schedule.at"),
    ({"kind": "once", "at": "2100-02-29T00:00:00Z"}, "schedule.at"),
    ({"kind": "once", "at": "9999-12-31T23:59:59", "timezone": "America/New_York"}, "schedule.at"),
    ({"kind": "once", "at": "0001-01-01T00:00:00", "timezone": "Asia/Tokyo"}, "schedule.at"),
    ({"kind": "interval", "every": "1h", "anchor": "0001-01-01T00:00", "timezone": "Asia/Tokyo"}, "schedule.anchor"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "field"), BAD, ids=lambda value: str(value)[:60])
def test_a_bad_value_is_refused_by_its_field_and_says_what_is_allowed(spec: Any, field: str) -> None:
    with pytest.raises(BadValue) as refused:
        parse_schedule(spec, job_id="job", created_at=MADE)
    assert refused.value.field == field
    assert refused.value.allowed
    with pytest.raises(BadValue):
        canonical_spec(spec) if field != "schedule.days" else parse_schedule(spec, job_id="job", created_at=MADE)


def test_a_key_that_a_kind_does_not_have_is_answered_with_those_that_it_has() -> None:
    with pytest.raises(BadValue, match="a schedule of kind interval has kind, every"):
        parse_schedule({"kind": "interval", "every": "5m", "minute": 1}, job_id="job", created_at=MADE)


def test_an_unknown_zone_is_answered_with_the_nearest_names() -> None:
    with pytest.raises(BadValue, match="did you mean Europe/Berlin"):
        parse_schedule({"kind": "hourly", "minute": 1, "timezone": "berlin"}, job_id="job", created_at=MADE)


def test_a_wall_time_that_comes_twice_is_its_first_pass() -> None:
    spec = {"kind": "once", "at": "2026-10-25T02:30:00", "timezone": "Europe/Berlin"}
    assert canonical_spec(spec)["at"] == "2026-10-25T00:30:00Z"


@pytest.mark.parametrize("expr", ["H H(1-4) * * MON", "h h(1-4) * * mon"])
def test_an_hour_hashed_by_the_job_id_is_stored_as_what_it_stands_for(expr: str) -> None:
    spec = {"kind": "cron", "expr": expr}
    stored = canonical_spec(spec, job_id="billing.close")
    assert "h" not in stored["expr"].lower()
    parsed = parse_schedule(spec, job_id="billing.close", created_at=MADE)
    assert parsed.spec == stored
    by_id = parsed.schedule
    by_text = parse_schedule(stored, job_id="another", created_at=MADE).schedule
    assert by_id.wall == by_text.wall  # type: ignore[union-attr]
    assert by_id != parse_schedule(spec, job_id="billing.open", created_at=MADE).schedule


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)
KEYS = st.sampled_from(
    ("expr", "timezone", "minute", "every", "offset", "anchor", "unit", "at", "days", "weekdays", "start", "balanced")
)


@given(st.sampled_from(("cron", "hourly", "interval", "calendar", "once")), st.dictionaries(KEYS, JSON, max_size=4))
def test_any_json_at_all_is_a_schedule_or_a_named_bad_value(kind: str, rest: dict[str, Any]) -> None:
    spec = {"kind": kind, **rest}
    try:
        stored = canonical_spec(spec)
    except BadValue:
        with pytest.raises(BadValue, match=r"^schedule\."):
            parse_schedule(spec, job_id="job", created_at=MADE)
    else:
        assert canonical_spec(stored) == stored
