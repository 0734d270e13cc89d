"""The reading half of the client: lists with their filters, single jobs and runs, explanations, the scheduler.

Promises that each filter is a named argument, so that a misspelt one is an error and never a list of everything.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from itinerary.client.calendar_reads import CalendarReads
from itinerary.client.list_reads import ListReads, window
from itinerary.client.results import (
    AuditPage,
    Calendar,
    CalendarDay,
    CalendarVersion,
    Distribution,
    Explanation,
    Freeze,
    Job,
    KnownTasks,
    Limit,
    Monitor,
    Preview,
    Queue,
    Run,
    Status,
    Trends,
    Worker,
    ZoneDiff,
    ZoneRules,
)
from itinerary.client.run_body import Moment, moment_text
from itinerary.client.transport import given, segment

PLANNED_WITHIN: Final = 40.0


class Reads(ListReads, CalendarReads):
    """The requests of a client that change nothing."""

    def job(self, job_id: str) -> Job:
        """One job, with its `next_runs`."""
        return Job.of(self._api.object("GET", f"/jobs/{segment(job_id)}"))

    def run(self, run_id: str) -> Run:
        """One run with its attempts."""
        return Run.of(self._api.object("GET", f"/runs/{segment(run_id)}"))

    def explain_job(self, job_id: str, at: Moment) -> Explanation:
        """The decision about the job at an instant (RFC 3339), and its reasons."""
        return Explanation.of(
            self._api.object("GET", f"/jobs/{segment(job_id)}/explain", params={"at": moment_text(at, "at")})
        )

    def explain_run(self, run_id: str) -> Explanation:
        """The reasons for the run's state."""
        return Explanation.of(self._api.object("GET", f"/runs/{segment(run_id)}/explain"))

    def audit(
        self,
        *,
        subject: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> AuditPage:
        """One page of the audit log, newest first; `subject` is a job's or a run's id."""
        asked = given(
            subject=subject, actor=actor, action=action, **window(since, until), limit=limit, cursor=cursor
        )  # fmt: skip
        return AuditPage.of(self._api.object("GET", "/audit", params=asked))

    def status(self) -> Status:
        """The leader, since when it leads, and its view of the scheduler."""
        return Status.of(self._api.object("GET", "/scheduler/status"))

    def zone_rules(self) -> ZoneRules:
        """The zone rules that the installation adopted, and whether a host has others."""
        return ZoneRules.of(self._api.object("GET", "/zones"))

    def zone_rules_diff(
        self,
        before: str | Mapping[str, str] = "in_force",
        after: str | Mapping[str, str] = "installed",
        *,
        days: int | None = None,
        limit: int | None = None,
    ) -> ZoneDiff:
        """The jobs whose coming times change from one set of zone rules to another; changes nothing.

        A set is `in_force`, `before` (the last adoption), `installed` (on the API's host), or files with a version.
        """
        asked = {"from": before, "to": after, **given(days=days, limit=limit)}
        answer = self._api.object("POST", "/zones/diff", again=True, json=asked, timeout=PLANNED_WITHIN)
        return ZoneDiff.of(answer)

    def distribution(self) -> Distribution:
        """The load of the coming 24 hours."""
        return Distribution.of(self._api.object("GET", "/scheduler/distribution", timeout=PLANNED_WITHIN))

    def trends(
        self,
        since: Moment | None = None,
        until: Moment | None = None,
        *,
        step: str | None = None,
        queue: str | None = None,
    ) -> Trends:
        """The figures that leaders counted in a window, of all queues or of one; the last hour if no time is given."""
        window = {"from": moment_text(since, "since"), "to": moment_text(until, "until")}
        asked = given(**window, step=step, queue=queue)
        return Trends.of(self._api.object("GET", "/stats/trends", params=asked))

    def workers(self) -> list[Worker]:
        """The workers whose heartbeats the leader receives."""
        return [Worker.of(item) for item in self._api.object("GET", "/workers")["items"]]

    def tasks(self) -> KnownTasks:
        """The tasks that living workers say they know."""
        return KnownTasks.of(self._api.object("GET", "/tasks"))

    def queues(self) -> list[Queue]:
        """Every queue that is defined or paused, has runs that wait or are in flight, or workers."""
        return [Queue.of(item) for item in self._whole("/queues", 1000)]

    def queue(self, name: str) -> Queue:
        """One queue; `defined` is false if nobody defined or paused it."""
        return Queue.of(self._api.object("GET", f"/queues/{segment(name)}"))

    def freezes(self, status: str | None = None) -> list[Freeze]:
        """Every freeze, the newest first; of one status: active, coming or past."""
        return [Freeze.of(item) for item in self._whole("/freezes", 100, status=status)]

    def freeze(self, freeze_id: int) -> Freeze:
        """One freeze."""
        return Freeze.of(self._api.object("GET", f"/freezes/{freeze_id}"))

    def monitors(self) -> list[Monitor]:
        """Every monitor, without its pings."""
        return [Monitor.of(item) for item in self._whole("/monitors", 100)]

    def monitor(self, monitor_id: str) -> Monitor:
        """One monitor, with its last pings."""
        return Monitor.of(self._api.object("GET", f"/monitors/{segment(monitor_id)}"))

    def limits(self) -> list[Limit]:
        """Every limit, with its use as the leader knows it."""
        return [Limit.of(item) for item in self._whole("/limits", 100)]

    def limit(self, name: str) -> Limit:
        """One limit, with its use as the leader knows it."""
        return Limit.of(self._api.object("GET", f"/limits/{segment(name)}"))

    def calendars(self) -> list[Calendar]:
        """Every calendar by its id."""
        return [Calendar.of(item) for item in self._whole("/calendars", 100)]

    def calendar(self, calendar_id: str) -> Calendar:
        """One calendar with its newest version."""
        return Calendar.of(self._api.object("GET", f"/calendars/{segment(calendar_id)}"))

    def calendar_days(self, calendar_id: str, year: int) -> list[CalendarDay]:
        """The days of a year with an instant of the calendar, in its own zone."""
        days = self._api.object("GET", f"/calendars/{segment(calendar_id)}/days", params={"year": year})
        return [CalendarDay.of(day) for day in days["days"]]

    def calendar_versions(self, calendar_id: str) -> list[CalendarVersion]:
        """Every version of the calendar, the newest first."""
        return [CalendarVersion.of(item) for item in self._whole(f"/calendars/{segment(calendar_id)}/versions", 100)]

    def calendar_jobs(self, calendar_id: str) -> list[str]:
        """The ids of the current jobs that name the calendar."""
        path = f"/calendars/{segment(calendar_id)}/jobs"
        return [str(job_id) for job_id in self._whole(path, 100)]

    def calendar_monitors(self, calendar_id: str) -> list[str]:
        """The ids of the monitors that name the calendar."""
        path = f"/calendars/{segment(calendar_id)}/monitors"
        return [str(monitor_id) for monitor_id in self._whole(path, 100)]

    def _whole(self, path: str, at_once: int, **filters: Any) -> Iterator[Any]:
        asked: dict[str, Any] = {"limit": at_once, **given(**filters)}
        while True:
            page = self._api.object("GET", path, params=asked)
            yield from page["items"]
            if not page.get("next_cursor"):
                return
            asked["cursor"] = page["next_cursor"]

    def preview_job(self, job_id: str, count: int = 10, start: Moment | None = None) -> Preview:
        """The next `count` occurrences of a job after `start` (default: now)."""
        return Preview.of(
            self._api.object(
                "GET",
                f"/jobs/{segment(job_id)}/preview",
                params=given(count=count, **{"from": moment_text(start, "start")}),
            )
        )

    def preview(
        self,
        schedule: Mapping[str, Any],
        count: int = 10,
        start: Moment | None = None,
        calendars: Mapping[str, Any] | None = None,
    ) -> Preview:
        """The next `count` occurrences of a schedule that is not saved, as these `calendars` of a job leave it."""
        wanted = given(schedule=schedule, count=count, calendars=calendars, **{"from": moment_text(start, "start")})
        return Preview.of(self._api.object("POST", "/preview", again=True, json=wanted))
