"""How edits, pings and time change a monitor. Pure.

A ping is judged by the instant at which the API stored it, leader or not. An edit expects nothing of the past.
"""

from dataclasses import replace

from itinerary.protocol.instants import MINUTE, Duration, Instant
from scheduler_service.core.monitors.model import Monitor, MonitorContent, MonitorState, PingOutcome
from scheduler_service.core.schedules.closed import ClosedSchedule, own_schedule
from scheduler_service.core.schedules.kinds import IntervalSchedule, Schedule
from scheduler_service.core.schedules.stepping import next_after

EARLIEST: Duration = MINUTE
"""A ping that comes up to this much early, by a clock that is ahead, is that of the coming occurrence."""


def expected_after(content: MonitorContent, at: Instant) -> Instant | None:
    """Return when the ping after one at `at` is due; an interval counts from that ping."""
    if isinstance(own_schedule(content.schedule), IntervalSchedule):
        return next_after(_counted_from(content, at), at)
    following = next_after(content.schedule, at)
    if following is None or following - at > min(EARLIEST, content.grace):
        return following
    then = next_after(content.schedule, following)
    is_early = then is None or 2 * (following - at) < then - following
    return then if is_early else following


def _counted_from(content: MonitorContent, at: Instant) -> Schedule:
    """Return the schedule; an interval's rhythm with an occurrence at `at`."""
    own = own_schedule(content.schedule)
    if not isinstance(own, IntervalSchedule):
        return content.schedule
    placed = own.placed(at)
    return content.schedule.placed(placed) if isinstance(content.schedule, ClosedSchedule) else placed


def edited(monitor: Monitor, content: MonitorContent, now: Instant) -> Monitor:
    """Return the monitor with a new definition, by which its next ping is expected from now on."""
    if content.paused:
        state = MonitorState.PAUSED
    elif monitor.state is MonitorState.PAUSED:
        state = MonitorState.NEW if monitor.last_ping_at is None else MonitorState.UP
    else:
        state = monitor.state
    after = replace(monitor, content=content, state=state, version=monitor.version + 1, updated_at=now)
    return _awaiting(after, now)


def created(monitor_id: str, content: MonitorContent, now: Instant) -> Monitor:
    """Return a new monitor; it expects its first ping at its first occurrence."""
    state = MonitorState.PAUSED if content.paused else MonitorState.NEW
    return _awaiting(Monitor(monitor_id, 1, content, state, now, now), now)


def pinged(monitor: Monitor, outcome: PingOutcome, duration: Duration | None, at: Instant) -> Monitor:
    """Return the monitor after a ping; a paused one only remembers it."""
    known = replace(monitor, last_ping_at=at, last_outcome=outcome)
    if outcome is PingOutcome.START:
        return replace(known, started_at=at)
    ran = at - monitor.started_at if duration is None and monitor.started_at is not None else duration
    known = replace(known, started_at=None, last_duration=None if ran is None else max(0, ran))
    if monitor.state is MonitorState.PAUSED:
        return known
    if outcome is PingOutcome.FAIL:
        return replace(known, state=MonitorState.DOWN, alert_at=None)
    return _awaiting(replace(known, state=MonitorState.UP), at)


def missed(monitor: Monitor) -> Monitor:
    """Return the monitor whose ping did not come by `alert_at`; or that got one which nobody could place yet.

    A calendar may have closed the expected instant since: then the next open one is expected.
    """
    if monitor.expected_at is None and monitor.last_ping_at is not None:
        return _awaiting(monitor, monitor.last_ping_at)
    if monitor.expected_at is not None and monitor.content is not None and monitor.content.calendars is not None:
        still = next_after(_counted_from(monitor.content, monitor.expected_at), monitor.expected_at - 1)
        if still != monitor.expected_at:
            return _expecting(monitor, monitor.content, still)
    return replace(monitor, state=MonitorState.DOWN, alert_at=None)


def state_at(monitor: Monitor, now: Instant) -> MonitorState:
    """Return the state to show."""
    awaits = monitor.state in (MonitorState.NEW, MonitorState.UP)
    is_late = awaits and monitor.expected_at is not None and monitor.expected_at < now
    return MonitorState.LATE if is_late else monitor.state


def _awaiting(monitor: Monitor, at: Instant) -> Monitor:
    """Expect the next ping after `at`, where the state expects one.

    Without a definition that can be read, a program that can read it finds the monitor due and expects the next ping.
    """
    if monitor.content is None:
        waits = monitor.state in (MonitorState.NEW, MonitorState.UP)
        return replace(monitor, expected_at=None, alert_at=at if waits else None)
    expected = None if monitor.state is MonitorState.PAUSED else expected_after(monitor.content, at)
    return _expecting(monitor, monitor.content, expected)


def _expecting(monitor: Monitor, content: MonitorContent, expected: Instant | None) -> Monitor:
    alert_at = None if expected is None or monitor.state is MonitorState.DOWN else expected + content.grace
    return replace(monitor, expected_at=expected, alert_at=alert_at)
