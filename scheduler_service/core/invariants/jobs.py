"""The invariants of one job: each occurrence has one row or lies in one missed range; no forbidden overlap."""

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, takewhile
from operator import attrgetter
from typing import NamedTuple

from itinerary.protocol.instants import DAY, Instant, format_instant
from scheduler_service.core.balancing.placements import rhythm_of
from scheduler_service.core.invariants.history import Finding, History, Rule, RunFacts, Tolerance
from scheduler_service.core.model import Job, JobHistory, MissedRange, Overlap, RunKind
from scheduler_service.core.run_state import RunState
from scheduler_service.core.schedules.schedule import occurrences
from scheduler_service.core.versions import spans


class _Ran(NamedTuple):
    """The time from the first start of a run to its end."""

    start: Instant
    end: Instant
    run: RunFacts


class JobCheck:
    """Reads one job's runs in order of nominal time, and reports those that contradict its versions and ranges."""

    def __init__(
        self, job: JobHistory, missed_ranges: Sequence[MissedRange], history: History, tolerance: Tolerance
    ) -> None:
        self._job = job
        self._missed_ranges = _apart(missed_ranges)
        self._starts = [missed_range.start for missed_range in self._missed_ranges]
        self._now = history.now
        self._tolerance = tolerance
        self._since = history.since or 0
        self._until = _judged_until(job, history)
        self._expected = _expected(job, self._since, self._until)
        self._next = next(self._expected, None)
        self._last_row: Instant | None = None
        self._unmade = [0] * len(self._missed_ranges)
        # Where the database's clock was set back, a version begins in a past that was judged already; and what was
        # skipped in the instant in which an edit came, the edit takes back.
        begins = [version.effective_from for version in job.versions]
        self._blurred = {
            missed_range
            for missed_range in self._missed_ranges
            if any(missed_range.start - tolerance.skew <= at < missed_range.end for at in begins)
        }
        rhythms = filter(None, map(rhythm_of, job.versions))
        placed_at = max((rhythm.first for rhythm in rhythms), default=0)  # where it was before that is not kept
        self._blurred.update(missed_range for missed_range in self._missed_ranges if missed_range.start < placed_at)
        self._recent: list[_Ran] = []
        self._to_come: list[_Ran] = []  # by their start: what was run long after its time meets few of the runs between

    def see(self, run: RunFacts) -> Iterator[Finding]:
        """Check the next run of the job."""
        if run.kind is RunKind.OCCURRENCE:
            yield from self._place(run)
        if self._first_start(run) is not None:
            yield from self._meet(run)

    def end(self) -> Iterator[Finding]:
        """Finish, after all runs."""
        while self._next is not None:
            yield from self._unowned(self._next)
            self._next = next(self._expected, None)
        for missed_range, unmade in zip(self._missed_ranges, self._unmade, strict=True):
            if unmade == missed_range.count or missed_range.start < self._since or missed_range.end > self._until:
                continue
            message = (
                f"a gap says {missed_range.count}, but {unmade} occurrences in it have no row ({missed_range.reason})"
            )
            if unmade > missed_range.count:
                yield Finding(Rule.LOST, self._job.job_id, message)
            elif missed_range not in self._blurred:
                yield Finding(Rule.CONTRADICTION, self._job.job_id, message)

    def _place(self, run: RunFacts) -> Iterator[Finding]:
        at = run.scheduled_at
        if at == self._last_row:
            yield Finding(Rule.DOUBLED, run.run_id, f"{format_instant(at)} has two rows")
        self._last_row = at
        while self._next is not None and self._next < at:
            yield from self._unowned(self._next)
            self._next = next(self._expected, None)
        if self._next == at:
            self._next = next(self._expected, None)
        self._note_foreign(run)
        version = self._version_of(run)
        if version is None or not _names(version, at):
            message = f"version {run.job_version} of the job has no occurrence at {format_instant(at)}"
            yield Finding(Rule.UNPLANNED, run.run_id, message)
        elif self._is_superseded(run):
            message = f"released or waiting, though version {run.job_version} does not hold at {format_instant(at)}"
            yield Finding(Rule.UNPLANNED, run.run_id, message)

    def _version_of(self, run: RunFacts) -> Job | None:
        """Return the run's version with the calendars that were in force at its time: each edit of one is a cut."""
        cuts = [job for job in self._job.versions if job.version == run.job_version]
        begun = [job for job in cuts if job.effective_from <= run.scheduled_at]
        return next(reversed(begun), next(iter(cuts), None))

    def _note_foreign(self, run: RunFacts) -> None:
        holds = max((job.version for job in self._job.versions if job.effective_from <= run.scheduled_at), default=0)
        if holds != run.job_version:
            self._blurred.update(self._missed_ranges[n] for n in self._covering(run.scheduled_at))

    def _unowned(self, at: Instant) -> Iterator[Finding]:
        covering = self._covering(at)
        for n in covering:
            self._unmade[n] += 1
        if not covering:
            message = f"the occurrence at {format_instant(at)} has neither a row nor a gap"
            yield Finding(Rule.LOST, self._job.job_id, message)

    def _covering(self, at: Instant) -> list[int]:
        """Return the index of the missed range that contains this instant, if any."""
        n = bisect_right(self._starts, at) - 1
        return [n] if n >= 0 and at < self._missed_ranges[n].end else []

    def _is_superseded(self, run: RunFacts) -> bool:
        """Whether a newer, planned version is valid at its time and began before any dispatch of the run.

        The first dispatch of a recalled run is not recorded; an edit leaves such a run as it is.
        """
        if run.recalled_at is not None:
            return False
        dispatched_at = run.attempts[0].pending_at if run.attempts else run.pending_at
        newer = [
            job.effective_from
            for job in self._job.versions
            if (run.job_version or 0) < job.version <= self._job.planned_version
            and job.effective_from <= run.scheduled_at
        ]
        if not newer or run.state is RunState.SCHEDULED:
            return bool(newer)
        return dispatched_at is not None and dispatched_at > min(newer) + self._tolerance.skew

    def _meet(self, run: RunFacts) -> Iterator[Finding]:
        """Check for overlaps. No run starts before its scheduled time: one that was over by then meets no later run."""
        skew = self._tolerance.skew
        one = _Ran(self._first_start(run) or 0, self._now if run.finished_at is None else run.finished_at, run)
        begun = bisect_right(self._to_come, run.scheduled_at, key=attrgetter("start"))
        self._recent += self._to_come[:begun]
        del self._to_come[:begun]
        self._recent = [other for other in self._recent if other.end > run.scheduled_at - skew]
        for other in chain(self._recent, takewhile(lambda other: other.start < one.end, self._to_come)):
            meet = one.start + skew < other.end and other.start + skew < one.end
            # The first one admitted was not checked, and which one that was is not recorded.
            if meet and not self._may_overlap(run) and not self._may_overlap(other.run):
                message = f"ran at the same time as {other.run.run_id}, which its job forbids"
                yield Finding(Rule.OVERLAP, run.run_id, message)
        insort(self._to_come, one, key=attrgetter("start"))

    def _may_overlap(self, run: RunFacts) -> bool:
        if run.overlap is not None:
            return run.overlap is Overlap.ALLOW
        since = run.job_version or 0
        return any(job.overlap is Overlap.ALLOW for job in self._job.versions if job.version >= since)

    @staticmethod
    def _first_start(run: RunFacts) -> Instant | None:
        starts = [attempt.started_at for attempt in run.attempts if attempt.started_at is not None]
        return min(starts, default=run.started_at)


def _apart(missed_ranges: Sequence[MissedRange]) -> list[MissedRange]:
    """Return the ranges in order, overlapping ones merged: which of them counted an occurrence is not recorded."""
    apart: list[MissedRange] = []
    for missed_range in sorted(missed_ranges, key=lambda missed_range: missed_range.start):
        if apart and missed_range.start < apart[-1].end:
            one = apart.pop()
            count, reason = one.count + missed_range.count, f"{one.reason}; {missed_range.reason}"
            missed_range = replace(one, end=max(one.end, missed_range.end), count=count, reason=reason)
        apart.append(missed_range)
    return apart


def _judged_until(job: JobHistory, history: History) -> Instant:
    """Return the instant before which occurrences are planned for good: a later edit does not reach back there."""
    unplanned = [version.effective_from for version in job.versions if version.version > job.planned_version]
    return min([history.now, history.cursor or 0, *unplanned])


def _expected(job: JobHistory, since: Instant, until: Instant) -> Iterator[Instant]:
    for version, first, last in spans(job, since, until):
        for start in range(first, last, DAY):
            yield from occurrences(version.schedule, start, min(start + DAY, last))


def _names(version: Job, at: Instant) -> bool:
    rhythm = rhythm_of(version)
    if rhythm is not None and at < rhythm.first:
        return True  # its previous place is not kept
    return occurrences(version.schedule, at, at + 1) == [at]
