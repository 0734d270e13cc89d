"""The clock kit that users import in their own tests."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduler_service.testing import assert_fires, assert_never_fires, fires, next_fire, warnings_of


def test_a_line_fires_at_the_times_given() -> None:
    assert_fires(
        "30 2 * * *",
        "2027-03-27T00:00",
        "2027-03-29T00:00",
        ["2027-03-27T02:30", "2027-03-28T03:00"],
        timezone="Europe/Berlin",
    )


def test_a_spec_is_taken_as_the_service_takes_it() -> None:
    spec = {"kind": "interval", "every": "25m", "offset": "2m"}
    assert_fires(spec, "2026-11-27T00:00", "2026-11-27T01:00", ["2026-11-27T00:27:00Z", "2026-11-27T00:52:00Z"])


def test_what_differs_is_said_with_its_wall_time() -> None:
    with pytest.raises(AssertionError) as failed:
        assert_fires(
            "0 9 * * *", "2026-11-27T00:00", "2026-11-28T00:00", ["2026-11-27T10:00"], timezone="Europe/Berlin"
        )
    text = str(failed.value)
    assert "too much: 2026-11-27T08:00:00Z = 2026-11-27T09:00:00+01:00" in text
    assert "missing: 2026-11-27T09:00:00Z = 2026-11-27T10:00:00+01:00" in text


def test_a_silent_stretch_can_be_claimed() -> None:
    assert_never_fires("0 0 1 * *", "2026-11-02T00:00", "2026-12-01T00:00")
    with pytest.raises(AssertionError, match="too much"):
        assert_never_fires("0 0 1 * *", "2026-11-02T00:00", "2026-12-01T00:00:01")


def test_times_are_given_as_datetimes_too_and_come_back_in_the_schedules_zone() -> None:
    start = datetime(2026, 11, 27, tzinfo=UTC)
    (found,) = fires("0 9 * * *", start, start + timedelta(days=1), timezone="Asia/Tokyo")
    assert found == datetime(2026, 11, 27, 0, 0, tzinfo=UTC)
    assert found.hour == 9
    assert next_fire("0 9 * * *", start, timezone="Asia/Tokyo") == datetime(2026, 11, 28, tzinfo=UTC)


def test_the_zone_holds_for_a_spec_that_names_none() -> None:
    nine = {"kind": "cron", "expr": "0 9 * * *"}
    once = {"kind": "once", "at": "2026-11-27T09:00:00"}
    for spec in (nine, once):
        assert_fires(spec, "2026-11-27T00:00", "2026-11-28T00:00", ["2026-11-27T00:00:00Z"], timezone="Asia/Tokyo")
    assert_fires(
        {**nine, "timezone": "UTC"},
        "2026-11-27T00:00",
        "2026-11-28T00:00",
        ["2026-11-27T09:00:00Z"],
        timezone="Asia/Tokyo",
    )


def test_the_zone_holds_for_the_members_of_a_union() -> None:
    union = {"kind": "any", "of": [{"kind": "cron", "expr": "0 9 * * *"}, {"kind": "hourly", "minute": 30}]}
    times = ["2027-01-01T08:30", "2027-01-01T09:00", "2027-01-01T09:30"]
    assert_fires(union, "2027-01-01T08:15", "2027-01-01T10:00", times, timezone="Europe/Berlin")


def test_the_warnings_of_a_line_can_be_read() -> None:
    assert any("EITHER" in warning for warning in warnings_of("0 0 13 * 5"))
