"""How edits, pings and time change a monitor."""

from dataclasses import replace
from typing import Any

import pytest

from itinerary.protocol.errors import BadValues
from itinerary.protocol.instants import HOUR, MINUTE, SECOND, format_instant, parse_instant
from scheduler_service.core.calendars.closing import closed_by
from scheduler_service.core.calendars.model import Compiled, NamedDays
from scheduler_service.core.contract.monitor_json import definition_of, read_monitor
from scheduler_service.core.monitors.judging import created, edited, expected_after, missed, pinged, state_at
from scheduler_service.core.monitors.model import Monitor, MonitorContent, MonitorState, PingOutcome

NOW = parse_instant("2026-11-28T12:00:00Z")
NIGHTLY = {"kind": "cron", "expr": "0 2 * * *", "timezone": "Europe/Berlin"}
HOURLY = {"kind": "interval", "every": "1h"}


def content(schedule: dict[str, Any], grace: str = "30m", **more: Any) -> MonitorContent:
    return read_monitor("backup", {"schedule": schedule, "grace": grace, **more}, NOW)


def monitor(schedule: dict[str, Any] = NIGHTLY, **more: Any) -> Monitor:
    return created("backup", content(schedule, **more), NOW)


@pytest.mark.parametrize(
    ("schedule", "grace", "at", "expected"),
    [
        (NIGHTLY, "30m", "2026-11-28T01:20:00Z", "2026-11-29T01:00:00Z"),
        (NIGHTLY, "30m", "2026-11-28T00:59:40Z", "2026-11-29T01:00:00Z"),  # a clock ahead: that of 01:00
        (NIGHTLY, "30m", "2026-11-28T00:30:00Z", "2026-11-28T01:00:00Z"),
        (NIGHTLY, "30m", "2026-03-29T00:10:00Z", "2026-03-29T01:00:00Z"),  # 02:00 is skipped by the clocks
        (HOURLY, "5m", "2026-11-28T01:20:00Z", "2026-11-28T02:20:00Z"),
        ({"kind": "cron", "expr": "* * * * *"}, "5m", "2026-11-28T01:00:01Z", "2026-11-28T01:01:00Z"),
        ({"kind": "cron", "expr": "* * * * *"}, "5m", "2026-11-28T01:00:58Z", "2026-11-28T01:02:00Z"),
    ],
)
def test_the_next_ping_is_due_at_the_next_occurrence_or_an_interval_later(
    schedule: dict[str, Any], grace: str, at: str, expected: str
) -> None:
    found = expected_after(content(schedule, grace), parse_instant(at))
    assert found is not None
    assert format_instant(found) == expected


def test_a_new_monitor_expects_its_first_ping_and_goes_down_without_it() -> None:
    new = monitor()
    assert new.alert_at == parse_instant("2026-11-29T01:30:00Z")
    assert [state_at(new, at).value for at in (NOW, parse_instant("2026-11-29T01:10:00Z"))] == ["new", "late"]
    assert (missed(new).state, missed(new).alert_at) == (MonitorState.DOWN, None)


def test_a_success_is_up_until_the_next_one_is_late() -> None:
    up = pinged(missed(monitor()), PingOutcome.SUCCESS, None, NOW)
    assert (up.state, up.last_ping_at, up.last_outcome) == (MonitorState.UP, NOW, PingOutcome.SUCCESS)
    assert state_at(up, NOW + 13 * HOUR) is MonitorState.UP
    assert state_at(up, NOW + 13 * HOUR + SECOND) is MonitorState.LATE
    assert up.alert_at == NOW + 13 * HOUR + 30 * MINUTE


def test_a_failure_is_down_at_once_and_a_duration_is_given_or_counted_from_the_start() -> None:
    began = pinged(monitor(), PingOutcome.START, None, NOW)
    assert (began.state, began.alert_at) == (MonitorState.NEW, monitor().alert_at)
    failed = pinged(began, PingOutcome.FAIL, None, NOW + MINUTE)
    assert (failed.state, failed.alert_at, failed.last_duration) == (MonitorState.DOWN, None, MINUTE)
    assert pinged(began, PingOutcome.SUCCESS, SECOND, NOW + MINUTE).last_duration == SECOND
    assert pinged(failed, PingOutcome.SUCCESS, None, NOW + HOUR).last_duration is None


def test_an_edit_expects_nothing_of_the_past_and_does_not_lift_what_is_down() -> None:
    up = pinged(monitor(), PingOutcome.SUCCESS, None, NOW)
    later = edited(up, content(HOURLY), NOW + 9 * HOUR)
    assert (later.state, later.expected_at, later.version) == (MonitorState.UP, NOW + 10 * HOUR, 2)
    still = edited(missed(up), content(HOURLY), NOW + 9 * HOUR)
    assert (still.state, still.alert_at) == (MonitorState.DOWN, None)


def test_a_paused_monitor_expects_nothing_and_remembers_its_pings() -> None:
    paused = edited(monitor(), content(NIGHTLY, paused=True), NOW)
    assert (paused.state, paused.expected_at, paused.alert_at) == (MonitorState.PAUSED, None, None)
    after = pinged(paused, PingOutcome.FAIL, None, NOW)
    assert (after.state, after.last_ping_at) == (MonitorState.PAUSED, NOW)
    resumed = edited(after, content(NIGHTLY), NOW + HOUR)
    assert (resumed.state, resumed.expected_at) == (MonitorState.UP, parse_instant("2026-11-29T01:00:00Z"))


def test_a_schedule_that_is_over_expects_nothing_more() -> None:
    once = monitor({"kind": "once", "at": "2026-11-28T13:00:00Z"})
    up = pinged(once, PingOutcome.SUCCESS, None, NOW + HOUR)
    assert (up.state, up.expected_at, up.alert_at) == (MonitorState.UP, None, None)


OPEN = Compiled("Europe/Berlin")
CLOSED = Compiled("Europe/Berlin", days=(NamedDays(20_786, 20_786, "29 November 2026"),))


def closing(schedule: dict[str, Any], compiled: Compiled = CLOSED, **rule: Any) -> MonitorContent:
    """A definition with a calendar, closed as the store closes it."""
    plain = content(schedule, calendars={"exclude": ["plant"], **rule})
    assert plain.calendars is not None
    return replace(plain, schedule=closed_by(plain.schedule, plain.calendars, {"plant": compiled}))


@pytest.mark.parametrize(
    ("schedule", "rule", "expected"),
    [
        (NIGHTLY, {}, "2026-11-30T01:00:00Z"),
        ({**NIGHTLY, "expr": "0 2 29 * *"}, {"when_excluded": "next_day"}, "2026-11-30T01:00:00Z"),
        ({**NIGHTLY, "expr": "0 20 29 * *"}, {"when_excluded": "previous_day"}, "2026-11-28T19:00:00Z"),
        ({"kind": "interval", "every": "12h"}, {}, "2026-11-30T00:00:00Z"),  # the first of its rhythm that is open
    ],
)
def test_no_ping_is_expected_at_a_closed_time(schedule: dict[str, Any], rule: dict[str, Any], expected: str) -> None:
    new = created("backup", closing(schedule, **rule), NOW)
    assert new.expected_at == parse_instant(expected)
    assert new.alert_at == parse_instant(expected) + 30 * MINUTE


@pytest.mark.parametrize("schedule", [NIGHTLY, HOURLY])
def test_a_calendar_that_closes_the_expected_time_before_the_alarm_takes_it_back(schedule: dict[str, Any]) -> None:
    late = pinged(created("backup", closing(schedule, OPEN), NOW), PingOutcome.SUCCESS, None, NOW + 11 * HOUR)
    assert missed(late).state is MonitorState.DOWN
    closed = missed(replace(late, content=closing(schedule)))
    assert closed.state is MonitorState.UP
    assert closed.expected_at is not None
    assert closed.expected_at >= parse_instant("2026-11-29T23:00:00Z")
    assert closed.alert_at == closed.expected_at + 30 * MINUTE


def test_a_monitor_says_calendars_as_a_job_does_and_nothing_of_none() -> None:
    assert "calendars" not in definition_of(content(NIGHTLY))
    with pytest.raises(BadValues, match="only wall times move"):
        content(HOURLY, calendars={"exclude": ["plant"], "when_excluded": "next_day"})
    with pytest.raises(BadValues, match=r"calendars\.only"):
        content(NIGHTLY, calendars={"only": 3})
