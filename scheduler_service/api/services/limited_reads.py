"""History, records and the leader's figures as a limited token sees them.

Promises, as `limited` does, that others' rows do not exist. What concerns the whole installation is refused, and what
the token's limits cannot classify is not shown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from itinerary.protocol.errors import NotFound
from itinerary.protocol.instants import Duration, Instant
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.api.services.limited import LimitedJobs, LimitedRuns, LimitedSets, out_of_scope
from scheduler_service.api.services.limited_bulk import LimitedBulk
from scheduler_service.api.services.limited_queues import LimitedQueues
from scheduler_service.api.services.limited_samples import LimitedSamples
from scheduler_service.api.services.limited_timeline import LimitedTimeline
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.core.audit import AuditEntry, Caller
from scheduler_service.core.contract.backfill import Known
from scheduler_service.core.explain.facts import Facts, Version
from scheduler_service.core.model import MissedRange, Run
from scheduler_service.core.run_state import ACTIVE, RunState
from scheduler_service.core.token_limits import Limits
from scheduler_service.ports.calendars import CalendarStore
from scheduler_service.ports.history import HistoryStore, Outcome, Relatives, Total, Trouble
from scheduler_service.ports.notices import NOTHING, Backlog
from scheduler_service.ports.records import AuditFilter, AuditLog, Evidence
from scheduler_service.ports.sla import SlaMiss
from scheduler_service.ports.stores import JobFilter, Page, RunFilter, RunStore

_MOST: Final = 1_000
_FIGURES: Final = ("index_runs", "active_runs", "oldest_due_at", "states", "upcoming")


def limited_stores(stores: Stores, limits: Limits, who: Caller) -> Stores:
    """Return the stores within the caller's limits."""
    jobs, runs = LimitedJobs(stores.jobs, limits), LimitedRuns(stores.runs, limits)
    return replace(
        stores, jobs=jobs, runs=runs, queue_store=LimitedQueues(stores.queue_store, limits),
        limit_store=cast(Any, _Refused("the list of limits")), monitor_store=cast(Any, _Refused("monitors")),
        freeze_store=cast(Any, _Refused("the list of freezes")),
        calendar_store=cast(Any, _Calendars(stores.calendar_store)),
        job_sets=LimitedSets(stores.job_sets, limits), bulk=LimitedBulk(stores.bulk, who),
        audit=_Audit(stores.audit, who), evidence=_Evidence(stores.evidence, jobs, runs),
        history=_History(stores.history, jobs, runs, limits), outbox=cast(Any, _NoOutbox("the list of notifications")),
        samples=LimitedSamples(stores.samples, limits), timeline=LimitedTimeline(runs),
        saved_views=cast(Any, _Refused("saved views")),
    )  # fmt: skip


class _Audit:
    """AuditLog of the caller's own changes; of most entries the job or run cannot be determined."""

    def __init__(self, audit: AuditLog, who: Caller) -> None:
        self._audit = audit
        self._who = who
        self.record = audit.record
        self.of_key = audit.of_key

    def list(self, wanted: AuditFilter, limit: int, cursor: str | None) -> Page[AuditEntry]:
        if wanted.actor not in (None, self._who.name):
            return Page([], None)
        return self._audit.list(replace(wanted, actor=self._who.name), limit, cursor)


class _Evidence(Evidence):
    """Evidence of visible jobs and runs; a deleted job cannot be classified, so it is not shown."""

    def __init__(self, evidence: Evidence, jobs: LimitedJobs, runs: LimitedRuns) -> None:
        self._evidence = evidence
        self._jobs = jobs
        self._runs = runs

    def of_occurrence(self, job_id: str, at: Instant) -> Facts:
        self._jobs.get(job_id)
        return self._seen(self._evidence.of_occurrence(job_id, at))

    def of_run(self, run_id: str) -> Facts:
        self._runs.get(run_id)
        return self._seen(self._evidence.of_run(run_id))

    def _seen(self, facts: Facts) -> Facts:
        """Drop the run ahead, if it is of a queue that the caller does not see."""
        if facts.ahead is None:
            return facts
        try:
            self._runs.get(facts.ahead.run_id)
        except NotFound:
            return replace(facts, ahead=None)
        return facts

    def of_occurrences(self, job_id: str, times: Sequence[Instant]) -> Known:
        self._jobs.get(job_id)
        return self._evidence.of_occurrences(job_id, times)


class _History(HistoryStore):
    """History by the limited lists, except for a visible job's own history."""

    def __init__(self, history: HistoryStore, jobs: LimitedJobs, runs: LimitedRuns, limits: Limits) -> None:
        self._history = history
        self._jobs = jobs
        self._runs = runs
        self._limits = limits

    def count_runs(self, wanted: RunFilter) -> Total:
        return _total(self._runs.list(wanted, _MOST, None))

    def count_jobs(self, wanted: JobFilter) -> Total:
        return _total(self._jobs.list(wanted, _MOST, None))

    def latest(self, since: Instant, until: Instant, limit: int) -> list[Outcome]:
        page = self._runs.list(RunFilter(since=since, until=until), min(limit, _MOST), None)
        return [
            Outcome(
                run.run_id, run.job_id, run.state, run.scheduled_at, run.started_at, run.finished_at, run.job_version
            )
            for run in page.items
        ]

    def latest_of(self, job_ids: Sequence[str], until: Instant, limit: int) -> Mapping[str, list[Outcome]]:
        found = self._history.latest_of([job_id for job_id in job_ids if self._sees(job_id)], until, limit)
        return {job_id: found.get(job_id, []) for job_id in job_ids}

    def relatives(self, run_id: str, limit: int) -> Relatives:
        sees = sees_run_of(self._runs)
        found = self._history.relatives(run_id, limit)
        earlier, later = (one if one is not None and sees(one) else None for one in (found.earlier, found.later))
        return Relatives(earlier, later, tuple(one for one in found.again if sees(one.run_id)))

    def troubles(self, since: Instant, limit: int) -> list[Trouble]:
        wanted = RunFilter(states=(RunState.FAILED, RunState.MISSED), since=since)
        return [_trouble(run) for run in self._runs.list(wanted, min(limit, _MOST), None).items]

    def sla_misses(self, since: Instant, limit: int) -> list[SlaMiss]:
        return [miss for miss in self._history.sla_misses(since, limit) if self._sees_run(miss.run_id)]

    def _sees_run(self, run_id: str) -> bool:
        try:
            self._runs.get(run_id)
        except NotFound:
            return False
        return True

    def missed_ranges(self, since: Instant, limit: int) -> list[MissedRange]:
        found = self._history.missed_ranges(since, limit)
        seen = {job_id: self._sees(job_id) for job_id in {missed_range.job_id for missed_range in found}}
        return [missed_range for missed_range in found if seen[missed_range.job_id]]

    def missed_ranges_of(self, job_id: str, limit: int) -> list[MissedRange]:
        return self._history.missed_ranges_of(job_id, limit) if self._sees(job_id) else []

    def versions(self, job_id: str, limit: int) -> list[Version]:
        found = self._history.versions(job_id, limit) if self._sees(job_id) else []
        return [version for version in found if self._limits.has_job(version.job)]

    def active_counts(self, most: int) -> Mapping[RunState, int]:
        return {state: self.count_runs(RunFilter(states=(state,))).number for state in RunState if state in ACTIVE}

    def _sees(self, job_id: str) -> bool:
        try:
            return self._limits.has_id(job_id) and bool(self._jobs.get(job_id))
        except NotFound:
            return False


def _total(page: Page[Any]) -> Total:
    return Total(len(page.items), page.next_cursor is not None)


def _trouble(run: Run) -> Trouble:
    kind, message = (run.error.type, run.error.message) if run.error else (None, None)
    return Trouble(
        run.run_id, run.job_id, run.task, run.state, run.reason, kind, message, run.finished_at or run.scheduled_at
    )


class _Refused:
    """A store of what concerns all jobs, so that a limited token sees nothing of it."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> Any:
        raise out_of_scope(self._what)


class _Calendars(_Refused):
    """Calendars, which jobs within the limits may name: read and not changed, and without what names them."""

    def __init__(self, calendars: CalendarStore) -> None:
        super().__init__("changes of calendars, and what names them")
        self.get, self.list = calendars.get, calendars.list
        self.versions, self.versions_of = calendars.versions, calendars.versions_of


class _NoOutbox(_Refused):
    """Notifications, of which no backlog is shown."""

    def backlog(self) -> Backlog:
        return NOTHING


class LimitedLeader(LeaderLine):
    """The line to the leader: workers and queues, without others' queues, runs and figures."""

    def __init__(self, leader: LeaderLine, limits: Limits, sees_run: Callable[[str], bool]) -> None:
        self._leader = leader
        self._limits = limits
        self._sees_run = sees_run

    def tell(self, kind: str, body: Mapping[str, Any]) -> None:
        self._leader.tell(kind, body)

    def ask(self, what: str, subject: str | None = None) -> Mapping[str, Any]:
        match what:
            case "statistics":
                return self._own(self._leader.ask(what))
            case "job":
                return self._leader.ask(what, subject)  # asked only after the job was found visible
            case "run" | "progress":  # merged only into runs that were found visible
                return self._leader.ask(what, subject)
            case "waiting" | "limit":  # asked only of a run that was found visible, and of the limits that it names
                return self._without_others(self._leader.ask(what, subject))
            case _:
                raise out_of_scope(f"the installation's {what}")

    def statistics_around(self, queue: str) -> Mapping[str, Any]:
        """Called after a row of the queue was found visible."""
        return self._own(self._leader.ask("statistics"), queue)

    def request(self, kind: str, body: Mapping[str, Any], within: Duration | None = None) -> Mapping[str, Any]:
        raise out_of_scope("what the leader decides for all jobs together")

    def _without_others(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Drop holders of slots that the caller does not see; their number stays."""
        waits, limit = answer.get("waiting"), answer.get("limit")
        if waits is not None:
            return {"waiting": {**waits, "limits": [self._limit(one) for one in waits["limits"]]}}
        return answer if limit is None else {"limit": self._limit(limit)}

    def _limit(self, full: Mapping[str, Any]) -> Mapping[str, Any]:
        kept_for = full.get("kept_for")
        seen = kept_for if kept_for is not None and self._sees_run(kept_for) else None
        held_by = [one for one in full["held_by"] if self._sees_run(one["run_id"])]
        return {**full, "held_by": held_by, "kept_for": seen}

    def _own(self, seen: Mapping[str, Any], also: str | None = None) -> Mapping[str, Any]:
        queues = [queue for queue in seen["queues"] if self._sees(queue["name"], also)]
        workers = [self._worker(worker, also) for worker in seen["workers"]]
        without = {name: value for name, value in seen.items() if name not in _FIGURES}
        # Without queues= a worker's owner is unknown: list all, so that no caller is told that none is alive.
        kept = [worker for worker in workers if worker["queues"] or not self._limits.queues]
        return {**without, "queues": queues, "workers": kept}

    def _sees(self, queue: str, also: str | None) -> bool:
        return queue == also or self._limits.sees_queue(queue)

    def _worker(self, worker: Mapping[str, Any], also: str | None) -> dict[str, Any]:
        running = [run_id for run_id in worker["running"][:_MOST] if self._sees_run(run_id)]
        queues = [queue for queue in worker["queues"] if self._sees(queue, also)]
        return {**worker, "running": running, "queues": queues}


def sees_run(stores: Stores) -> Callable[[str], bool]:
    """Whether these stores have the run."""
    return sees_run_of(stores.runs)


def sees_run_of(runs: RunStore) -> Callable[[str], bool]:
    """Whether this store has the run."""

    def sees(run_id: str) -> bool:
        try:
            return bool(runs.get(run_id))
        except NotFound:
            return False

    return sees
