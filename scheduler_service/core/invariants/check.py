"""The rules for a whole history, whatever process wrote it: nothing lost, doubled, early, undispatched or stuck.

After Jepsen's checker for Mesos Chronos, made stricter: executions are taken from the workers' own record if there is
one. History and record must agree in both directions. Pure; runs are streamed, so that a million of them need no
memory.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Final

from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.core.invariants.history import ExecutionLog, Finding, History, Rule, RunFacts, Tolerance
from scheduler_service.core.invariants.jobs import JobCheck
from scheduler_service.core.invariants.runs import record_findings, run_findings
from scheduler_service.core.model import JobHistory, MissedRange, RunKind
from scheduler_service.core.run_state import WAITING, RunState

_FOREVER: Final[Instant] = 2**62


def violations(
    history: History,
    log: ExecutionLog | None = None,
    tolerance: Tolerance = Tolerance(),  # noqa: B008
) -> Iterator[Finding]:
    """Yield every violation in `history`, and in the workers' record of the same time if it is given."""
    jobs = {job.job_id: job for job in history.jobs}
    missed_ranges: dict[str, list[MissedRange]] = defaultdict(list)
    for missed_range in history.missed_ranges:
        missed_ranges[missed_range.job_id].append(missed_range)
    unseen = set(log or ())
    queues = _Queues(history.now, tolerance, {job.job_id: until for job in history.jobs if (until := _kept_until(job))})
    for job_id, runs in groupby(history.runs, key=attrgetter("job_id")):
        job = jobs.pop(job_id, None)
        check = None if job is None else JobCheck(job, missed_ranges[job.job_id], history, tolerance)
        for run in runs:
            yield from run_findings(run, history.now, tolerance)
            if log is not None:
                yield from record_findings(run, log, unseen, history.now, tolerance)
            queues.see(run)
            if check is not None:
                yield from check.see(run)
        if check is not None:
            yield from check.end()
    for job in jobs.values():
        yield from JobCheck(job, missed_ranges[job.job_id], history, tolerance).end()
    yield from queues.stuck()
    if history.since is None:
        yield from (_unknown(run_id, attempt) for run_id, attempt in sorted(unseen))


def _unknown(run_id: str, attempt: int) -> Finding:
    return Finding(Rule.UNKNOWN, run_id, f"attempt {attempt} was started, but the history has no such attempt")


def _kept_until(history: JobHistory) -> Instant | None:
    """Return how long a pause keeps runs that were due before it and still wait."""
    job = history.current
    if not job.paused or job.pause_skips:
        return None
    return _FOREVER if job.paused_until is None else job.paused_until


class _Queues:
    """Overdue runs, judged after all are read.

    A full queue, a pause, or the job's own unfinished run justifies waiting.
    """

    def __init__(self, now: Instant, tolerance: Tolerance, kept_until: Mapping[str, Instant]) -> None:
        self._kept_until = kept_until
        self._tolerance = tolerance
        self._overdue_before = now - tolerance.stuck_after
        self._waiting: list[tuple[str, str, str | None, Instant]] = []
        self._pending: list[tuple[str, str, Instant]] = []
        self._in_flight: Counter[str] = Counter()
        self._busy_jobs: set[str] = set()
        self._started_up_to: dict[str, Instant] = {}

    def see(self, run: RunFacts) -> None:
        """Record one run."""
        if run.started_at is not None and run.pending_at is not None:
            self._started_up_to[run.queue] = max(self._started_up_to.get(run.queue, 0), run.pending_at)
        if run.state in (RunState.PENDING, RunState.RUNNING, RunState.RETRYING) and run.job_id is not None:
            self._busy_jobs.add(run.job_id)
        if run.state is RunState.PENDING:
            self._in_flight[run.queue] += 1
            if run.pending_at is not None and run.pending_at < self._overdue_before:
                self._pending.append((run.run_id, run.queue, run.pending_at))
        elif run.state in WAITING and run.due_at < self._overdue_before:
            job_id = run.job_id if run.state is RunState.SCHEDULED else None
            kept_until = self._kept_until.get(job_id or "", 0) if run.kind is RunKind.OCCURRENCE else 0
            if kept_until > self._overdue_before:
                return
            self._waiting.append((run.run_id, run.queue, job_id, run.due_at))

    def stuck(self) -> Iterator[Finding]:
        """Yield the runs that nothing works on."""
        for run_id, queue, job_id, due_at in self._waiting:
            if self._in_flight[queue] < self._tolerance.window and job_id not in self._busy_jobs:
                yield Finding(Rule.STUCK, run_id, f"due since {format_instant(due_at)}, and nothing holds it back")
        for run_id, queue, pending_at in self._pending:
            if self._started_up_to.get(queue, 0) > pending_at + self._tolerance.stuck_after:
                message = f"pending since {format_instant(pending_at)}, while later runs of its queue were started"
                yield Finding(Rule.STUCK, run_id, message)
