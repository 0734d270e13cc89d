"""Messages between the commit of their run and the broker's confirmation."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.leader.commands import PublishedMark
from scheduler_service.core.leader.timed_runs import TimedRuns
from scheduler_service.core.model import DispatchedRun

_LONGEST_PAUSE: Final = 30 * SECOND


@dataclass(slots=True)
class Publishing:
    """`in_progress`: runs being published, `redispatching`: runs that get a new number first.

    `resend`: the unconfirmed ones, to be sent again. `marks`: confirmed ones that the database does not know.
    """

    in_progress: set[str] = field(default_factory=set)
    redispatching: set[str] = field(default_factory=set)
    resend: TimedRuns = field(default_factory=TimedRuns)
    marks: list[PublishedMark] = field(default_factory=list)
    _failures: dict[str, int] = field(default_factory=dict)

    def begin(self, runs: Iterable[DispatchedRun]) -> None:
        """Record that the publish of these runs was commanded."""
        self.in_progress.update(sent.run_id for sent in runs)

    def confirmed(self, runs: Iterable[DispatchedRun], at: Instant) -> None:
        """Record that the broker accepted these messages; a later write stores the marks."""
        for sent in runs:
            self.in_progress.discard(sent.run_id)
            self._failures.pop(sent.run_id, None)
            self.marks.append(PublishedMark(sent.run_id, sent.attempt, at))

    def unconfirmed(self, run_id: str, now: Instant) -> None:
        """Let the run be sent again: at once the first time, then after longer pauses."""
        times = self._failures[run_id] = self._failures.get(run_id, 0) + 1
        pause = 0 if times == 1 else min(SECOND << min(times - 2, 10), _LONGEST_PAUSE)
        self.resend.check_at(now + pause, run_id)

    def to_resend(self, now: Instant) -> list[str]:
        """Take out the runs to be sent again now."""
        passed = self.resend.passed(now)
        self.in_progress.difference_update(passed)
        return [run_id for run_id in passed if run_id in self._failures]

    def begin_redispatch(self, run_id: str) -> None:
        """Record that a new number for the run was commanded."""
        self.redispatching.add(run_id)

    def redispatch_answered(self, run_ids: Iterable[str]) -> None:
        """Record that the database has answered for these runs."""
        self.redispatching.difference_update(run_ids)

    def marks_stored(self) -> None:
        """Record that a command of this pass stores the marks."""
        self.marks = []

    def attempt_over(self, run_id: str) -> None:
        """Forget the failures of the run's attempt."""
        self._failures.pop(run_id, None)
