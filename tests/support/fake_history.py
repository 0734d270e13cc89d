"""HistoryStore in memory, by the same contract as the SQL one."""

from collections.abc import Mapping, Sequence

from itinerary.protocol.instants import Instant
from scheduler_service.core.explain.facts import Version
from scheduler_service.core.model import MissedRange
from scheduler_service.core.policies import OVERLAP_WORD
from scheduler_service.core.run_state import ACTIVE, RunState
from scheduler_service.ports.history import Outcome, Relatives, Total, Trouble
from scheduler_service.ports.stores import JobFilter, RunFilter
from tests.support.fake_jobs import FakeJobStore
from tests.support.fake_rows import RunRow, Tables
from tests.support.fake_runs import matches

_SAID = 200


class FakeHistoryStore:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def count_runs(self, wanted: RunFilter) -> Total:
        with self._tables.lock:
            found = sum(matches(row, wanted) for row in self._tables.runs.values())
        return Total(found, False)

    def count_jobs(self, wanted: JobFilter) -> Total:
        return Total(len(FakeJobStore(self._tables).list(wanted, 10**6, None).items), False)

    def latest(self, since: Instant, until: Instant, limit: int) -> list[Outcome]:
        with self._tables.lock:
            rows = [row for row in self._tables.runs.values() if since <= row.scheduled_at < until]
            return _newest(rows, limit)

    def latest_of(self, job_ids: Sequence[str], until: Instant, limit: int) -> Mapping[str, list[Outcome]]:
        with self._tables.lock:
            rows = [row for row in self._tables.runs.values() if row.scheduled_at < until]
            return {job_id: _newest([row for row in rows if row.job_id == job_id], limit) for job_id in job_ids}

    def relatives(self, run_id: str, limit: int) -> Relatives:
        with self._tables.lock:
            rows = list(self._tables.runs.values())
        again = sorted((row for row in rows if row.retry_of == run_id), key=lambda row: row.id, reverse=True)
        own = next((row for row in rows if row.run_id == run_id), None)
        beside = [] if own is None else [row for row in rows if row.job_id == own.job_id and row.job_id is not None]
        ordered = [row.run_id for row in sorted(beside, key=lambda row: (row.scheduled_at, row.id))]
        place = ordered.index(run_id) if ordered else 0
        earlier, later = ordered[max(0, place - 1) : place], ordered[place + 1 : place + 2]
        return Relatives(*earlier or [None], *later or [None], tuple(map(_outcome, again[:limit])))

    def troubles(self, since: Instant, limit: int) -> list[Trouble]:
        with self._tables.lock:
            found = [
                (row.finished_at, row.id, _trouble(row, row.finished_at))
                for row in self._tables.runs.values()
                if row.state in (RunState.FAILED, RunState.MISSED) and row.finished_at and row.finished_at >= since
            ]
        return [trouble for *_, trouble in sorted(found, key=lambda item: item[:2], reverse=True)[:limit]]

    def missed_ranges(self, since: Instant, limit: int) -> list[MissedRange]:
        with self._tables.lock:
            missed_ranges = [
                missed_range
                for missed_range in self._tables.missed_ranges
                if not missed_range.reason.startswith(f"{OVERLAP_WORD} ")
            ]
        found = [
            (missed_range.end, place, missed_range)
            for place, missed_range in enumerate(missed_ranges)
            if missed_range.end >= since
        ]
        return [missed_range for *_, missed_range in sorted(found, key=lambda item: item[:2], reverse=True)[:limit]]

    def missed_ranges_of(self, job_id: str, limit: int) -> list[MissedRange]:
        with self._tables.lock:
            found = [missed_range for missed_range in self._tables.missed_ranges if missed_range.job_id == job_id]
        return sorted(found, key=lambda missed_range: missed_range.start, reverse=True)[:limit]

    def versions(self, job_id: str, limit: int) -> list[Version]:
        with self._tables.lock:
            row = self._tables.jobs.get(job_id)
            known = [] if row is None else list(zip(row.versions, row.actors, strict=True))
        return [Version(job, actor) for job, actor in reversed(known)][:limit]

    def active_counts(self, most: int) -> Mapping[RunState, int]:
        with self._tables.lock:
            states = [row.state for row in self._tables.runs.values()]
        return {state: min(most, states.count(state)) for state in ACTIVE}


def _newest(rows: Sequence[RunRow], limit: int) -> list[Outcome]:
    newest_first = sorted(rows, key=lambda row: (row.scheduled_at, row.id), reverse=True)
    return [_outcome(row) for row in newest_first[:limit]]


def _outcome(row: RunRow) -> Outcome:
    return Outcome(
        row.run_id, row.job_id, row.state, row.scheduled_at, row.started_at, row.finished_at, row.job_version
    )


def _trouble(row: RunRow, finished_at: Instant) -> Trouble:
    error = row.error or {}
    return Trouble(
        row.run_id, row.job_id, row.task, row.state, _cut(row.reason), _cut(error.get("type")),
        _cut(error.get("message")), finished_at,
    )  # fmt: skip


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:_SAID]
