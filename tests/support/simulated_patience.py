"""Watches what a leader gives up as late, and that its grace was over by then."""

from collections.abc import Sequence

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.freezes import FREEZE_SKIPS, HELD_BY_FREEZE
from scheduler_service.core.leader.commands import Apply, CreateRuns
from scheduler_service.core.model import MissedRange
from scheduler_service.core.run_state import Event
from scheduler_service.core.schedules.schedule import occurrences
from tests.support.fake_store import FakeStore


class Patience:
    """`given_up` are occurrences that were not late."""

    def __init__(self, store: FakeStore) -> None:
        self._store = store
        self.given_up: list[str] = []

    def see(self, commands: Sequence[object], now: Instant) -> None:
        """Nothing is given up as late before its grace is over; the shortest of its job's versions counts."""
        for command in commands:
            if isinstance(command, Apply):
                missed = [change.run_id for change in command.transitions if change.event is Event.MISS]
                self.given_up += [run_id for run_id in missed if not self._is_late(run_id, now)]
                expired = [change.run_id for change in command.transitions if change.event is Event.EXPIRE]
                self.given_up += [run_id for run_id in expired if not self._is_expired(run_id, now)]
            elif isinstance(command, CreateRuns):
                self.given_up += [
                    f"{missed_range.job_id} until {missed_range.end}"
                    for missed_range in command.missed_ranges
                    if not (_is_of_freeze(missed_range) or self._is_over(missed_range, now))
                ]

    def _is_late(self, run_id: str, now: Instant) -> bool:
        row = self._store.tables.runs.get(run_id)
        return row is None or now - row.due_at > self._grace(row.job_id or "")

    def _is_expired(self, run_id: str, now: Instant) -> bool:
        row = self._store.tables.runs.get(run_id)
        return row is None or (row.start_by is not None and row.start_by <= now)

    def _is_over(self, missed_range: MissedRange, now: Instant) -> bool:
        """At least as many occurrences in the gap are late as it counts."""
        versions = self._store.tables.jobs[missed_range.job_id].versions
        fires = {at for job in versions for at in occurrences(job.schedule, missed_range.start, missed_range.end)}
        return sum(now - at > self._grace(missed_range.job_id) for at in fires) >= missed_range.count

    def _grace(self, job_id: str) -> Duration:
        return min(job.misfire.grace for job in self._store.tables.jobs[job_id].versions)


def _is_of_freeze(missed_range: MissedRange) -> bool:
    """Whether a freeze skipped it, or held more than may wait: neither is for lateness."""
    return missed_range.reason.startswith((FREEZE_SKIPS, HELD_BY_FREEZE))
