"""The loop's whole state, and the step that collects the decisions of one iteration.

`iterate` takes ownership of the state: the caller never touches the object that it passed in again. It is changed in
place, since a hundred thousand runs cannot be copied a thousand times a second.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from itinerary.protocol.instants import MINUTE, SECOND, Duration, Instant
from scheduler_service.core.index.snapshot import ScheduledRunIndex
from scheduler_service.core.leader.commands import (
    Apply,
    Command,
    LateReport,
    ReadRuns,
    Transition,
    in_parts,
)
from scheduler_service.core.leader.counts import CountName
from scheduler_service.core.leader.deadline_heap import Deadlines
from scheduler_service.core.leader.parts.dispatches import Dispatches
from scheduler_service.core.leader.parts.due import DueRuns
from scheduler_service.core.leader.parts.held import HeldRuns
from scheduler_service.core.leader.parts.jobs import Jobs
from scheduler_service.core.leader.parts.judged import Judged
from scheduler_service.core.leader.parts.numbers import MessageNumbers
from scheduler_service.core.leader.parts.placing import Placing
from scheduler_service.core.leader.parts.planned import Planned
from scheduler_service.core.leader.parts.publishing import Publishing
from scheduler_service.core.leader.parts.reads import RowReads
from scheduler_service.core.leader.parts.rebuilds import Rebuilds
from scheduler_service.core.leader.parts.running import Running
from scheduler_service.core.leader.parts.skipped import SkippedRanges
from scheduler_service.core.leader.parts.unstarted import Unstarted
from scheduler_service.core.leader.parts.withdrawals import Withdrawals
from scheduler_service.core.leader.parts.workers import Workers
from scheduler_service.core.leader.poll_state import NEVER, Listened, Place
from scheduler_service.core.leader.results import ServerEpoch
from scheduler_service.core.leader.run_table import RunTable
from scheduler_service.core.leader.watermarks import Watermarks
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.run_state import FINAL, PENDING, Event, RunState, is_allowed


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """The times and bounds of the rules (durations in microseconds)."""

    pre_schedule_interval: Duration = 10 * SECOND
    index_rebuild_interval: Duration = 60 * SECOND
    lookahead_window: Duration = 10 * MINUTE
    grace_period: Duration = 30 * SECOND
    loop_interval: Duration = SECOND
    lost_after: Duration = 30 * SECOND
    redispatch_after: Duration = 30 * SECOND
    publish_window: int = 10_000
    max_redispatch: int = 5
    dispatch_batch: int = 500
    write_batch: int = 2_000
    due_poll_interval: Duration = 5 * SECOND
    statistics_interval: Duration = 10 * SECOND

    @property
    def prompt(self) -> Duration:
        """The longest delay with which an active leader finds a due run on a busy machine."""
        return 2 * self.loop_interval


@dataclass(slots=True)
class EpochState:
    """The epoch of Redis as far as the leader knows it; `redis_epoch` holds the rules.

    `watermark`: pending runs below it are redispatched. `gathering`: the epoch not accepted yet, found at `since`.
    `positions` of its inbox are being written; `committed`: one of them is in the database. `reread_at`: the inbox is
    being read from its start since then. `all_reported`: the leader has listened once for so long that every worker has
    reported. `knows_all`: that was so shortly before this epoch. `deferred`: claims to take once it is accepted.
    """

    watermark: int = 0
    broker: ServerEpoch | None = None
    querying: bool = False
    next_poll_at: Instant = 0
    gathering: str | None = None
    since: Instant = 0
    all_reported: bool = False
    knows_all: bool = False
    rereading: bool = False
    reread_at: Instant = 0
    positions: set[str] = field(default_factory=set)
    committed: bool = False
    accepting: bool = False
    next_try_at: Instant = 0
    deferred: list[tuple[str, int]] = field(default_factory=list)

    def wants_commit(self) -> bool:
        """Whether a position of the new inbox must be committed by itself."""
        return self.gathering is not None and not self.rereading and not self.positions


@dataclass(slots=True)
class SchedulerState:
    """Everything the leader knows: inbox read up to `position`."""

    settings: CoreSettings
    term: int
    planned: Planned
    position: str
    jobs: Jobs = field(default_factory=Jobs)
    runs: RunTable = field(default_factory=RunTable)
    since: Instant = 0

    index: ScheduledRunIndex = field(default_factory=ScheduledRunIndex)
    rebuilds: Rebuilds = field(default_factory=Rebuilds)
    last_iteration_at: Instant = 0
    position_saved: str = ""
    position_saved_at: Instant = 0

    judged: Judged = field(default_factory=Judged)
    due: DueRuns = field(default_factory=DueRuns)
    deadlines: Deadlines = field(default_factory=Deadlines)
    held: HeldRuns = field(default_factory=HeldRuns)
    skipped: SkippedRanges = field(default_factory=SkippedRanges)
    dispatches: Dispatches = field(default_factory=Dispatches)
    reads: RowReads = field(default_factory=RowReads)
    numbers: MessageNumbers = field(init=False)

    publishing: Publishing = field(default_factory=Publishing)
    unstarted: Unstarted = field(default_factory=Unstarted)
    running: Running = field(default_factory=Running)
    withdrawals: Withdrawals = field(default_factory=Withdrawals)
    watermarks: Watermarks = field(default_factory=Watermarks)
    epoch: EpochState = field(default_factory=EpochState)

    listened: Listened = NEVER
    workers: Workers = field(default_factory=Workers)

    placing: Placing = field(default_factory=Placing)

    counts: Counter[tuple[CountName, str]] = field(default_factory=Counter)
    stopping: bool = False
    draining: bool = False
    trimmed_at: Instant = 0
    next_due_poll_at: Instant = 0
    next_overdue_at: Instant = 0
    overdue_after: Place | None = None
    cancels_after: Place | None = None
    poll_wanted: bool = False
    next_poll_at: Instant = 0
    next_statistics_at: Instant = 0

    def __post_init__(self) -> None:
        self.numbers = MessageNumbers.of_term(self.term)

    def ignore(self, cause: str) -> None:
        """Count an event that changes nothing."""
        self.counts["ignored", cause] += 1

    def unreported_for(self, since: Instant) -> Duration:
        """The time since `since` without a report, as far as a report would have been received."""
        could_speak = max(since, self.listened.since, self.epoch.reread_at)
        return max(0, self.listened.until - could_speak)

    def attempt_over(self, run_id: str) -> None:
        """Forget the state of the run's attempt: the next one starts fresh."""
        self.publishing.attempt_over(run_id)
        self.unstarted.attempt_over(run_id)
        self.running.attempt_over(run_id)


@dataclass(slots=True)
class Step:
    """The decisions of one iteration so far; `finish` returns its commands in the order in which they must happen."""

    now: Instant
    creating: list[Command] = field(default_factory=list)
    dispatching: list[Command] = field(default_factory=list)
    others: list[Command] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    late: list[LateReport] = field(default_factory=list)
    cancels: list[str] = field(default_factory=list)
    reads: dict[str, None] = field(default_factory=dict)
    ripe: dict[str, list[ActiveRun]] | None = None
    again: bool = False
    _starts: dict[tuple[str, int], int] = field(default_factory=dict)

    def transition(self, state: SchedulerState, run: ActiveRun, change: Transition) -> None:
        """Record one guarded write that leaves the run as `run`, applied to memory at once.

        A start and the end of the same attempt within one iteration become one write, if a pending run may end so.
        """
        key = (change.run_id, change.attempt)
        started = self._starts.pop(key, None)
        if started is not None and is_allowed(RunState.PENDING, change.event):
            start = self.transitions[started]
            self.transitions[started] = change._replace(
                started_at=change.started_at or start.started_at, worker=change.worker or start.worker
            )
        else:
            if change.event is Event.START:
                self._starts[key] = len(self.transitions)
            self.transitions.append(change)
        keep(state, run, self.now)

    def read(self, state: SchedulerState, run_id: str) -> None:
        """Request the run's row from the database."""
        if state.reads.begin(run_id):
            self.reads[run_id] = None

    def finish(self, state: SchedulerState) -> list[Command]:
        """The commands in order: create rows, change them, dispatch them, then everything else."""
        commands = list(self.creating)
        if self._worth_applying(state):
            commands += self._applies(state)
            state.publishing.marks_stored()
            state.judged.saved()
            state.position_saved, state.position_saved_at = state.position, self.now
            if state.epoch.gathering is not None and not state.epoch.rereading:
                state.epoch.positions.add(state.position)
        commands += self.dispatching
        if self.reads:
            commands.append(ReadRuns(tuple(self.reads)))
        return commands + self.others

    def _applies(self, state: SchedulerState) -> list[Apply]:
        """The writes in parts; the last one commits the positions up to which was read and judged."""
        *early, last = in_parts(self.transitions, state.settings.write_batch)
        applies = [Apply(part) for part in early]
        applies.append(Apply(last, (), tuple(self.late), (), state.position, state.judged.until))
        applies[0] = replace(applies[0], published=tuple(state.publishing.marks), cancels=tuple(self.cancels))
        return applies

    def _worth_applying(self, state: SchedulerState) -> bool:
        if self.transitions or self.late or self.cancels or state.epoch.wants_commit():
            return True
        marks = state.publishing.marks
        if state.stopping:
            return state.judged.is_unsaved() or bool(marks) or state.position != state.position_saved
        if state.judged.is_overdue(self.now):
            return True
        moved_on = state.position != state.position_saved
        # The marks are not urgent, the dispatches are.
        patience = 10 * SECOND if state.dispatches.in_progress else SECOND
        return (bool(marks) and self.now - marks[0].at > patience) or (
            moved_on and self.now - state.position_saved_at > 10 * SECOND
        )


def keep(state: SchedulerState, run: ActiveRun, now: Instant) -> None:
    """Put the run into memory and mark a read of it in progress as outdated."""
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
