"""A clock kit for the tests of your own schedules: no service, no waiting, no clock.

    from scheduler_service.testing import assert_fires

    def test_the_report_runs_once_on_the_day_the_clocks_change():
        assert_fires("30 2 * * *", "2027-03-28T00:00", "2027-03-29T00:00",
                     ["2027-03-28T03:00"], timezone="Europe/Berlin")

A schedule is a cron line or a spec as the API takes it. Times are aware datetimes, RFC 3339 texts, or
wall times such as `2027-03-28T03:00`, which are read in the schedule's zone. Windows are [start, end).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from itinerary.jobs.specs import in_zone
from itinerary.protocol.instants import Instant, format_instant, from_datetime, to_datetime
from itinerary.protocol.redaction import unmasked
from scheduler_service.core.contract.job_json import job_body, read_job
from scheduler_service.core.contract.job_warnings import NEVER, is_to_come
from scheduler_service.core.schedules.preview import occurrence
from scheduler_service.core.schedules.schedule import (
    UNPLACED,
    IntervalSchedule,
    ParsedSchedule,
    Schedule,
    next_after,
    occurrences,
    parse_schedule,
    upcoming,
    zone_of,
)
from scheduler_service.core.schedules.spec_reading import moment
from scheduler_service.core.schedules.zones import zone

Spec = str | Mapping[str, Any]
Moment = str | datetime


def fires(
    spec: Spec,
    start: Moment,
    end: Moment,
    *,
    timezone: str = "UTC",
    job_id: str = "job",
    made_at: Moment | None = None,
) -> list[datetime]:
    """Return when the schedule fires in [start, end), as datetimes in its zone.

    `timezone` applies to cron lines, and to a spec that names none. An interval without an anchor and a calendar
    without a start count from `made_at`, by default `start`.
    """
    schedule, found = _found(spec, start, end, timezone, job_id, made_at)
    return [to_datetime(at).astimezone(zone(zone_of(schedule))) for at in found]


def assert_fires(
    spec: Spec,
    start: Moment,
    end: Moment,
    expected: Sequence[Moment],
    *,
    timezone: str = "UTC",
    job_id: str = "job",
    made_at: Moment | None = None,
) -> None:
    """Fail unless the schedule fires at exactly these times in [start, end); name missing and extra times."""
    schedule, found = _found(spec, start, end, timezone, job_id, made_at)
    wanted = [_instant(at, zone_of(schedule)) for at in expected]
    if sorted(wanted) != found:
        raise AssertionError(_difference(schedule, wanted, found))


def assert_never_fires(spec: Spec, start: Moment, end: Moment, *, timezone: str = "UTC", job_id: str = "job") -> None:
    """Fail if the schedule fires in [start, end)."""
    assert_fires(spec, start, end, [], timezone=timezone, job_id=job_id)


def next_fire(spec: Spec, after: Moment, *, timezone: str = "UTC", job_id: str = "job") -> datetime | None:
    """Return the first time strictly after `after` at which the schedule fires, in UTC; None if it never will."""
    zone_name = _zone_name(spec, timezone)
    moment_after = _instant(after, zone_name)
    found = next_after(_parsed(spec, timezone, job_id, moment_after).schedule, moment_after)
    return None if found is None else to_datetime(found)


def warnings_of(spec: Spec, *, timezone: str = "UTC", job_id: str = "job") -> tuple[str, ...]:
    """Return the warnings that the service would give if this schedule were saved now."""
    now = from_datetime(datetime.now(UTC))
    parsed = _parsed(spec, timezone, job_id, now)
    return parsed.warnings if is_to_come(parsed.schedule, now) else (*parsed.warnings, NEVER)


class JobTimes:
    """A job as the service would save it at `made_at`, and when its runs are due; BadValues if it would be refused.

    Called with (after, until, most) it returns the first `most` instants in (after, until], within start_at and end_at,
    without jitter. A balanced interval counts from `made_at`. What `itinerary.testing` asks for scheduled jobs.
    """

    def __init__(self, body: Mapping[str, Any], made_at: Instant) -> None:
        job, _ = read_job(unmasked(body), created_at=made_at)
        schedule = job.schedule
        if isinstance(schedule, IntervalSchedule) and schedule.first == UNPLACED:
            schedule = schedule.placed(made_at + schedule.every)
        self._job, self._schedule = job, schedule
        self.body = {**job_body(job), "version": 1}
        self.start_within = job.start_within
        self.must_end_within = job.must_end_within

    def __call__(self, after: Instant, until: Instant, most: int) -> list[Instant]:
        """Return the instants in (after, until], at most so many."""
        end = until + 1 if self._job.end_at is None else min(until + 1, self._job.end_at)
        return upcoming(self._schedule, after, most, start_at=self._job.start_at, end_at=end)


def _found(
    spec: Spec, start: Moment, end: Moment, timezone: str, job_id: str, made_at: Moment | None
) -> tuple[Schedule, list[Instant]]:
    name = _zone_name(spec, timezone)
    low, high = _instant(start, name), _instant(end, name)
    created = low if made_at is None else _instant(made_at, name)
    schedule = _parsed(spec, timezone, job_id, created).schedule
    return schedule, occurrences(schedule, low, high)


def _zone_name(spec: Spec, timezone: str) -> str:
    return timezone if isinstance(spec, str) else str(spec.get("timezone", timezone))


def _parsed(spec: Spec, timezone: str, job_id: str, made_at: Instant) -> ParsedSchedule:
    full = {"kind": "cron", "expr": spec} if isinstance(spec, str) else spec
    placed = in_zone(full, timezone) if full.get("kind") == "any" else {"timezone": timezone, **full}
    return parse_schedule(placed, job_id=job_id, created_at=made_at)


def _instant(at: Moment, timezone: str) -> Instant:
    return from_datetime(at) if isinstance(at, datetime) else moment(at, "time", timezone)


def _difference(schedule: Schedule, wanted: Sequence[Instant], found: Sequence[Instant]) -> str:
    lines = ["the schedule does not fire as expected:"]
    for at in sorted({*wanted, *found}):
        if (at in wanted) != (at in found):
            shown = occurrence(schedule, at)
            what = "missing" if at in wanted else "too much"
            note = f" ({shown.dst})" if shown.dst and at in found else ""
            lines.append(f"  {what}: {format_instant(at)} = {shown.local}{shown.offset}{note}")
    return "\n".join(lines)
