"""Messages between the commit of their run and the broker's confirmation."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.leader.commands import PublishedMark, Transition
from scheduler_service.core.leader.timed_runs import TimedRuns
from scheduler_service.core.model import DispatchedRun

_LONGEST_PAUSE: Final = 30 * SECOND


@dataclass(slots=True)
class Publishing:
    """`in_progress`: runs being published, `redispatching`: runs that get a new number first.

    `resend`: the unconfirmed ones, to be sent again. `marks`: confirmed ones that the database does not know, by run,
    the first confirmed first.
    """

    in_progress: set[str] = field(default_factory=set)
    redispatching: set[str] = field(default_factory=set)
    resend: TimedRuns = field(default_factory=TimedRuns)
    marks: dict[str, PublishedMark] = field(default_factory=dict)
    _failures: dict[str, int] = field(default_factory=dict)

    def begin(self, runs: Iterable[DispatchedRun]) -> None:
        """Record that the publish of these runs was commanded."""
        self.in_progress.update(sent.run_id for sent in runs)

    def confirmed(self, runs: Iterable[DispatchedRun], at: Instant) -> None:
        """Record that the broker accepted these messages; a later write stores the marks."""
        for sent in runs:
            self.marks.pop(sent.run_id, None)
            self.marks[sent.run_id] = PublishedMark(sent.run_id, sent.attempt, at)
        run_ids = [sent.run_id for sent in runs]
        self.in_progress.difference_update(run_ids)
        if self._failures:
            for run_id in run_ids:
                self._failures.pop(run_id, None)

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
        """Record that a new number for the run was commanded: no mark of an earlier message counts any more."""
        self.redispatching.add(run_id)
        self.marks.pop(run_id, None)

    def redispatch_answered(self, run_ids: Iterable[str]) -> None:
        """Record that the database has answered for these runs."""
        self.redispatching.difference_update(run_ids)

    def take_marks(self, writes: Iterable[Transition]) -> list[PublishedMark]:
        """Take out the marks of the attempts that these writes change: each costs no write of its own."""
        taken: list[PublishedMark] = []
        for change in writes if self.marks else ():
            mark = self.marks.get(change.run_id)
            if mark is not None and mark.attempt == change.attempt:
                taken.append(self.marks.pop(change.run_id))
        return taken

    def take_marks_until(self, at: Instant) -> list[PublishedMark]:
        """Take out the marks of what was confirmed by then: their runs wait in the queue."""
        taken: list[PublishedMark] = []
        for mark in self.marks.values():
            if mark.at > at:
                break
            taken.append(mark)
        for mark in taken:
            del self.marks[mark.run_id]
        return taken

    def first_mark_at(self) -> Instant | None:
        """When the first of the marks was confirmed."""
        return next((mark.at for mark in self.marks.values()), None)

    def attempt_over(self, run_id: str) -> None:
        """Forget the failures of the run's attempt."""
        if self._failures:
            self._failures.pop(run_id, None)
