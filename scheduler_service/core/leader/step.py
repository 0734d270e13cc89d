"""The step that collects the decisions of one iteration, and the one way of a changed run into memory.

Owns the order of a pass's commands: create rows, change them, dispatch, everything else. Promises that the position up
to which the inbox was read goes with the last write of what was read. It never carries a command out.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from itinerary.protocol.batches import batched
from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.leader.commands import Apply, Command, DispatchRuns, LateReport, ReadRuns, Transition
from scheduler_service.core.leader.pinging import with_pings
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import FINAL, PENDING, Event, RunState, is_allowed

_MARK_WAITS: Final = SECOND


@dataclass(slots=True)
class Step:
    """The decisions of one iteration so far; `finish` returns its commands in the order in which they must happen."""

    now: Instant
    creating: list[Command] = field(default_factory=list)
    dispatching: list[Command] = field(default_factory=list)
    handing_over: list[DispatchRuns] = field(default_factory=list)
    others: list[Command] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    late: list[LateReport] = field(default_factory=list)
    cancels: list[str] = field(default_factory=list)
    reads: dict[str, None] = field(default_factory=dict)
    ripe: dict[str, list[ActiveRun]] | None = None
    again: bool = False
    awaited: bool = False
    _starts: dict[tuple[str, int], int] = field(default_factory=dict)

    def transition(self, state: SchedulerState, run: ActiveRun, change: Transition) -> None:
        """Record one guarded write that leaves the run as `run`, applied to memory at once.

        A start and the end of the same attempt within one iteration become one write, if a pending run may end so.
        """
        change = with_pings(state.jobs, run, change)
        key = (change.run_id, change.attempt)
        started = self._starts.pop(key, None)
        if started is not None and is_allowed(RunState.PENDING, change.event):
            start = self.transitions[started]
            self.transitions[started] = change._replace(
                started_at=change.started_at or start.started_at, worker=change.worker or start.worker,
                starts=start.starts, pings=start.pings + change.pings,
            )  # fmt: skip
        else:
            if change.event is Event.START:
                self._starts[key] = len(self.transitions)
            self.transitions.append(change)
        if change.event is not Event.START:
            state.slots.ends(change.run_id, change.attempt)
            if state.awaits_slot_of(change.run_id):
                self.awaited = True
                if change.to in FINAL:  # a retry may take its slot again before this end is committed
                    state.hand_overs.ends(state.slots.uses(change.run_id))
        keep(state, run, self.now)

    def read(self, state: SchedulerState, run_id: str) -> None:
        """Request the run's row from the database."""
        if state.reads.begin(run_id):
            self.reads[run_id] = None

    def finish(self, state: SchedulerState) -> list[Command]:
        """The commands in order: create rows, change them, dispatch them, then everything else."""
        commands = list(self.creating)
        state.hand_overs.end_pass()
        if self._worth_applying(state):
            commands += self._applies(state)
            state.judged.saved()
            state.inbox.saved(self.now)
            state.epoch.position_sent(state.inbox.position)
        commands += self.dispatching
        if self.reads:
            commands.append(ReadRuns(tuple(self.reads)))
        return commands + self.others

    def _applies(self, state: SchedulerState) -> list[Apply]:
        """The writes in parts; the last one commits the positions up to which was read and judged."""
        # In one part with what takes the slots of runs that end.
        size = len(self.transitions) if self.handing_over else state.settings.write_batch
        *early, last = [*batched(self.transitions, size)] or [()]
        awaited, then = self.awaited, tuple(self.handing_over)
        take = state.publishing.take_marks
        applies = [Apply(part, tuple(take(part)), awaited=awaited) for part in early]
        # A mark waits for the write of its own run, which is soon, unless the run waits long in its queue.
        marks = (*take(last), *state.publishing.take_marks_until(self.now - (0 if state.stopping else _MARK_WAITS)))
        position, judged = state.inbox.position, state.judged.until
        applies.append(Apply(last, marks, tuple(self.late), (), position, judged, awaited, then))
        if self.cancels:
            applies[0] = replace(applies[0], cancels=tuple(self.cancels))
        return applies

    def _worth_applying(self, state: SchedulerState) -> bool:
        if self.transitions or self.late or self.cancels or state.epoch.wants_commit():
            return True
        marked_at = state.publishing.first_mark_at()
        if state.stopping:
            return state.judged.is_unsaved() or marked_at is not None or state.inbox.is_unsaved()
        if state.judged.is_overdue(self.now):
            return True
        # The marks are not urgent, the dispatches are.
        patience = 10 * SECOND if state.dispatches.in_progress else _MARK_WAITS
        return (marked_at is not None and self.now - marked_at > patience) or state.inbox.is_overdue(self.now)


def keep(state: SchedulerState, run: ActiveRun, now: Instant) -> None:
    """Put the run into memory and mark a read of it in progress as outdated."""
    if run.run_id in state.reads.in_progress:
        state.reads.outdate(run.run_id)
    state.runs.put(run)
    if run.start_by is not None:
        state.deadlines.note(run)
    if run.state is PENDING:
        state.watermarks.in_flight(run.queue, run.run_id, run.attempt, run.seq)
    elif run.run_id not in state.dispatches.in_progress:
        state.watermarks.gone(run.run_id)
    if run.state in FINAL:
        state.runs.note_end(run.run_id, now)
        state.attempt_over(run.run_id)
