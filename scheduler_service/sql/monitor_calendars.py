"""The calendars that monitors name: judged where one is saved, applied where its next ping is expected.

Promises that no monitor is saved by a calendar that is deleted meanwhile. No table lists these names, since monitors
are few. A search for them reads the definitions that mention a calendar, a hundred at a time.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, Text, cast, select

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Instant
from scheduler_service.core.calendars.closing import closed_by
from scheduler_service.core.calendars.model import Compiled, JobCalendars
from scheduler_service.core.contract.calendar_json import CALENDARS
from scheduler_service.core.contract.calendar_uses import counts_days, refuse_calendars, refuse_closed
from scheduler_service.core.model import Job
from scheduler_service.core.monitors.model import MonitorContent
from scheduler_service.sql.calendar_rows import versions_of
from scheduler_service.sql.column_types import LAST_INSTANT
from scheduler_service.sql.job_calendars import present
from scheduler_service.sql.monitor_tables import monitors

_FORGOTTEN: Final = Compiled("UTC")
_M: Final = monitors.c
_AT_ONCE: Final = 100


def closed_for(connection: Connection, content: MonitorContent, at: Instant = LAST_INSTANT) -> MonitorContent:
    """Return the definition with the schedule that its calendars leave it, as they are at `at`; else the newest."""
    if content.calendars is None:
        return content
    versions = versions_of(connection, content.calendars.ids, at)
    compiled = {one: versions[one][0].compiled if one in versions else _FORGOTTEN for one in content.calendars.ids}
    return replace(content, schedule=closed_by(content.schedule, content.calendars, compiled))


def judge(
    connection: Connection, saved: Sequence[tuple[str, str, MonitorContent]], now: Instant, *, hold: bool = False
) -> None:
    """Raise BadValues for calendars of monitors that are saved, each with its place in the request and its id.

    With `hold` no calendar that they name is edited or deleted until the end of the transaction.
    """
    as_jobs = [
        # Calendars judge jobs, and ask no more of one than its times.
        (place, Job(name, "", one.schedule, one.schedule_spec, calendars=one.calendars, effective_from=now))
        for place, name, one in saved
        if one.calendars is not None
    ]
    if as_jobs:
        known = present(connection, {one for _, job in as_jobs for one in _ids(job.calendars)}, hold=hold)
        refuse_calendars(as_jobs, known)
        refuse_closed([(place, job, None) for place, job in as_jobs], known)


def monitors_naming(
    connection: Connection, calendar_id: str, limit: int, after: str = "", *, by_days: bool = False
) -> list[str]:
    """Return monitors that name the calendar, by id, behind `after`; with `by_days` those that move or count days."""
    # Also finds its name in other texts: what a definition says of calendars decides.
    mentions = cast(_M.definition, Text).contains(json.dumps(calendar_id), autoescape=True)
    asked = select(_M.monitor_id, _M.definition).where(mentions).order_by(_M.monitor_id)
    found: list[str] = []
    while len(found) < limit:
        rows = connection.execute(asked.where(_M.monitor_id > after).limit(_AT_ONCE)).all()
        found += (row.monitor_id for row in rows if _names(row.definition, calendar_id, by_days))
        if len(rows) < _AT_ONCE:
            break
        after = rows[-1].monitor_id
    return found[:limit]


def _names(definition: Mapping[str, Any], calendar_id: str, by_days: bool) -> bool:
    calendars = _read(definition.get("calendars"))
    if calendars is None or calendar_id not in calendars.ids:
        return False
    return not by_days or counts_days(calendars, calendar_id)


def _ids(calendars: JobCalendars | None) -> Sequence[str]:
    return () if calendars is None else calendars.ids


def _read(value: object) -> JobCalendars | None:
    """Return the calendars of a definition; None of one that this program cannot read."""
    try:
        return None if value is None else CALENDARS.read(value, "calendars")
    except BadValue:
        return None
