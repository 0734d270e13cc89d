"""Calendars applied to the histories of jobs: each version of a calendar is one more cut in the jobs that use it.

A history with calendars applied holds, from each cut on, the job with its own schedule closed by the calendars in
force. Everything that works by histories works by calendars then. A job without calendars stays the same object.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, Final

from itinerary.protocol.instants import Instant
from scheduler_service.core.calendars.carrying import NOTHING, REACH, Carried, Stretch, carried
from scheduler_service.core.calendars.closing import Closing, closed, closing_of, decides_days
from scheduler_service.core.calendars.model import CalendarVersion, Compiled, JobCalendars
from scheduler_service.core.compact_history import with_schedule
from scheduler_service.core.model import Job, JobHistory
from scheduler_service.core.schedules.kinds import OwnSchedule
from scheduler_service.core.schedules.schedule import ClosedSchedule, own_schedule

_EVER: Final[Instant] = -(2**62)
_NAMES: Final = [field.name for field in fields(Job)]
_VALUES: Final = attrgetter(*_NAMES)
_SCHEDULE, _START = _NAMES.index("schedule"), _NAMES.index("effective_from")
_OPEN: Final = closing_of(JobCalendars(), {})
Versions = Mapping[str, Sequence[CalendarVersion]]
"""The versions of calendars by id, in order; the first counts from ever on."""


def with_calendars(history: JobHistory, versions: Versions) -> JobHistory:
    """Return the history cut at the versions of its calendars; several are applied by one CalendarApplier."""
    return CalendarApplier(versions).applied(history)


class CalendarApplier:
    """Applies versions of calendars to many jobs: equal schedules with equal calendars become one object.

    Cuts before `since` are left out, but for what they carry over it: nothing asks for instants before it. A version
    that is still to be planned keeps all of its cuts.
    """

    def __init__(self, versions: Versions, since: Instant = _EVER) -> None:
        self._versions = {one: tuple(of) for one, of in versions.items()}
        self._since = since
        self._edits: dict[int, tuple[JobCalendars, tuple[Instant, ...]]] = {}
        self._closings: dict[tuple[int, int], Closing] = {}
        self._schedules: dict[tuple[int, int, Carried], ClosedSchedule] = {}
        self._carried: dict[tuple[Any, ...], tuple[list[Carried], list[Stretch]]] = {}

    def applied(self, history: JobHistory) -> JobHistory:
        """Return the history with its calendars; itself if none of its versions names any."""
        if all(job.calendars is None for job in history.alike):
            return history
        calendars = history.alike[0].calendars
        if len(history.alike) == 1 and calendars is not None and not self._edits_of(calendars)[1]:
            # As most jobs, perhaps a million: nothing is built for one that is compact.
            left = self._left(own_schedule(history.schedule), self._closing(calendars, self._since))
            return with_schedule(history, left)
        jobs = history.versions
        found: list[Job] = []
        before: list[Stretch] = []
        for place, job in enumerate(jobs):
            until = jobs[place + 1].effective_from if place + 1 < len(jobs) else -_EVER
            begin = job.effective_from if place else min(job.created_at, job.effective_from)
            stretches = self._stretches(job, begin, until)
            if before and own_schedule(before[-1].own) != own_schedule(job.schedule):
                before = []
            whole = before + stretches
            carries = self._carries(whole)[len(before) :]
            # A version that is still to be planned begins before the instants that are asked for.
            since = self._since if job.version <= history.planned_version else job.effective_from
            found += self._versions_of(job, stretches, carries, since)
            before = [one for one in whole if one.start >= whole[-1].start - REACH] or whole[-1:]
        return JobHistory(tuple(found), history.planned_version)

    def _stretches(self, job: Job, begin: Instant, until: Instant) -> list[Stretch]:
        own, calendars = own_schedule(job.schedule), job.calendars
        if calendars is None:
            return [Stretch(begin, own, _OPEN)]
        reach = self._since - REACH
        _, edits = self._edits_of(calendars)
        starts = [begin, *(at for at in edits if max(begin, reach) < at < until)]
        return [Stretch(at, own, self._closing(calendars, max(at, reach))) for at in starts]

    def _edits_of(self, calendars: JobCalendars) -> tuple[JobCalendars, tuple[Instant, ...]]:
        """Return when the calendars change; kept by their object, which many jobs share."""
        found = self._edits.get(id(calendars))
        if found is None:
            edits = {v.effective_from for one in calendars.ids for v in self._versions[one][1:]}
            found = self._edits[id(calendars)] = calendars, tuple(sorted(edits))
        return found

    def _closing(self, calendars: JobCalendars, at: Instant) -> Closing:
        key = (id(calendars), bisect_right(self._edits_of(calendars)[1], at))
        found = self._closings.get(key)
        if found is None:
            compiled = {one: self._in_force(one, at) for one in calendars.ids}
            found = self._closings[key] = closing_of(calendars, compiled)
        return found

    def _in_force(self, calendar_id: str, at: Instant) -> Compiled:
        versions = self._versions[calendar_id]
        place = bisect_right(versions, at, key=lambda version: version.effective_from)
        return versions[max(0, place - 1)].compiled

    def _carries(self, stretches: list[Stretch]) -> list[Carried]:
        """Return what each stretch carries over from the ones before; nothing where calendars decide no day."""
        if len(stretches) == 1 or not any(decides_days(one.own, one.closing) for one in stretches):
            return [NOTHING] * len(stretches)
        # The jobs of one schedule differ in their first instant, which counts only near the edit.
        early = stretches[1].start - REACH
        key = (max(stretches[0].start, early), *((s.start, id(s.own), id(s.closing)) for s in stretches[1:]),
               id(stretches[0].own), id(stretches[0].closing))  # fmt: skip
        if key not in self._carried:
            self._carried[key] = carried(stretches), stretches
        return self._carried[key][0]

    def _versions_of(self, job: Job, stretches: list[Stretch], carries: list[Carried], since: Instant) -> list[Job]:
        kept = [n for n, one in enumerate(stretches) if one.start <= max(since, job.effective_from)][-1:]
        first = kept[0] if kept else 0
        return [
            self._version(job, one, carry, job.effective_from if place == 0 else one.start)
            for place, (one, carry) in enumerate(zip(stretches[first:], carries[first:], strict=True))
        ]

    def _version(self, job: Job, stretch: Stretch, carry: Carried, start: Instant) -> Job:
        if stretch.closing is _OPEN and carry == NOTHING:
            return replace(job, effective_from=start) if start != job.effective_from else job
        return _with_schedule(job, self._left(stretch.own, stretch.closing, carry), start)

    def _left(self, own: OwnSchedule, closing: Closing, carry: Carried = NOTHING) -> ClosedSchedule:
        key = (id(own), id(closing), carry)
        schedule = self._schedules.get(key)
        if schedule is None:
            schedule = self._schedules[key] = closed(own, closing, *carry)
        return schedule


def _with_schedule(job: Job, schedule: ClosedSchedule, start: Instant) -> Job:
    """Return the job with these two; in half the time of `replace`, for a takeover may do it a million times."""
    values = list(_VALUES(job))
    values[_SCHEDULE], values[_START] = schedule, start
    return Job(*values)
