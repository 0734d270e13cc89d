"""The loop's whole state, in parts.

`iterate` takes ownership of the state: the caller never touches the object that it passed in again. It is changed in
place, since a hundred thousand runs cannot be copied a thousand times a second.
"""

from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from itinerary.protocol.instants import MINUTE, SECOND, Duration, Instant
from scheduler_service.core.index.snapshot import ScheduledRunIndex
from scheduler_service.core.leader.parts.calendars import CalendarEdits
from scheduler_service.core.leader.parts.controls import KnownControls
from scheduler_service.core.leader.parts.counts import Counts
from scheduler_service.core.leader.parts.deadlines import Deadlines
from scheduler_service.core.leader.parts.dispatches import Dispatches
from scheduler_service.core.leader.parts.due import DueRuns
from scheduler_service.core.leader.parts.edits import EditQueue
from scheduler_service.core.leader.parts.epoch import Epoch
from scheduler_service.core.leader.parts.frozen import FrozenRuns
from scheduler_service.core.leader.parts.full_queues import FullQueues
from scheduler_service.core.leader.parts.hand_overs import HandOvers
from scheduler_service.core.leader.parts.held import HeldRuns
from scheduler_service.core.leader.parts.inbox import InboxPosition
from scheduler_service.core.leader.parts.jobs import Jobs
from scheduler_service.core.leader.parts.judged import Judged
from scheduler_service.core.leader.parts.load import Load
from scheduler_service.core.leader.parts.numbers import MessageNumbers
from scheduler_service.core.leader.parts.paused import PausedOccurrences
from scheduler_service.core.leader.parts.placing import Placing
from scheduler_service.core.leader.parts.planned import Planned
from scheduler_service.core.leader.parts.polls import Polls
from scheduler_service.core.leader.parts.progress import RunProgress
from scheduler_service.core.leader.parts.publishing import Publishing
from scheduler_service.core.leader.parts.rates import Rates
from scheduler_service.core.leader.parts.reads import RowReads
from scheduler_service.core.leader.parts.rebuilds import Rebuilds
from scheduler_service.core.leader.parts.recalls import Recalls
from scheduler_service.core.leader.parts.running import Running
from scheduler_service.core.leader.parts.runs import RunTable
from scheduler_service.core.leader.parts.skipped import SkippedRanges
from scheduler_service.core.leader.parts.slots import Slots
from scheduler_service.core.leader.parts.unstarted import Unstarted
from scheduler_service.core.leader.parts.watermarks import Watermarks
from scheduler_service.core.leader.parts.windows import Windows
from scheduler_service.core.leader.parts.withdrawals import Withdrawals
from scheduler_service.core.leader.parts.workers import WORKER_ALIVE_FOR, Workers, WorkerView
from scheduler_service.core.limits import QUEUE

_MOST_COMPARED: Final = 100


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """The times and bounds of the rules (durations in microseconds). `publish_window`: None is auto.

    `due_page`: how many due runs of a queue a poll reads; what memory holds of queues and lanes goes with it.
    """

    pre_schedule_interval: Duration = 10 * SECOND
    index_rebuild_interval: Duration = 60 * SECOND
    lookahead_window: Duration = 10 * MINUTE
    grace_period: Duration = 30 * SECOND
    loop_interval: Duration = SECOND
    lost_after: Duration = 30 * SECOND
    redispatch_after: Duration = 30 * SECOND
    publish_window: int | None = 10_000
    publish_ahead: Duration = 2 * SECOND
    max_redispatch: int = 5
    dispatch_batch: int = 500
    write_batch: int = 2_000
    due_poll_interval: Duration = 5 * SECOND
    due_page: int = 1_000

    @property
    def prompt(self) -> Duration:
        """The longest delay with which an active leader finds a due run on a busy machine."""
        return 2 * self.loop_interval


@dataclass(slots=True)
class SchedulerState:
    """Everything the leader knows. Each part is written only in the file of its name in `parts`, by its own methods.

    `iteration.py` alone writes the last four fields; those before `planned` never change.
    """

    settings: CoreSettings
    term: int
    since: Instant

    # Jobs, and the rows of their coming occurrences.
    planned: Planned
    judged: Judged
    inbox: InboxPosition
    numbers: MessageNumbers
    jobs: Jobs = field(default_factory=Jobs)
    edits: EditQueue = field(default_factory=EditQueue)
    calendars: CalendarEdits = field(default_factory=CalendarEdits)
    index: ScheduledRunIndex = field(default_factory=ScheduledRunIndex)
    rebuilds: Rebuilds = field(default_factory=Rebuilds)
    placing: Placing = field(default_factory=Placing)

    # Runs in memory, and their rows.
    runs: RunTable = field(default_factory=RunTable)
    reads: RowReads = field(default_factory=RowReads)
    polls: Polls = field(default_factory=Polls)
    full_queues: FullQueues = field(default_factory=FullQueues)

    # Waiting runs.
    due: DueRuns = field(default_factory=DueRuns)
    deadlines: Deadlines = field(default_factory=Deadlines)
    held: HeldRuns = field(default_factory=HeldRuns)
    skipped: SkippedRanges = field(default_factory=SkippedRanges)
    dispatches: Dispatches = field(default_factory=Dispatches)
    slots: Slots = field(default_factory=Slots)
    hand_overs: HandOvers = field(default_factory=HandOvers)
    windows: Windows = field(default_factory=Windows)
    controls: KnownControls = field(default_factory=KnownControls)
    paused: PausedOccurrences = field(default_factory=PausedOccurrences)
    rates: Rates = field(default_factory=Rates)
    frozen: FrozenRuns = field(default_factory=FrozenRuns)

    # Runs in flight.
    publishing: Publishing = field(default_factory=Publishing)
    unstarted: Unstarted = field(default_factory=Unstarted)
    running: Running = field(default_factory=Running)
    progress: RunProgress = field(default_factory=RunProgress)
    withdrawals: Withdrawals = field(default_factory=Withdrawals)
    recalls: Recalls = field(default_factory=Recalls)

    # Redis and the workers.
    watermarks: Watermarks = field(default_factory=Watermarks)
    epoch: Epoch = field(default_factory=Epoch)
    workers: Workers = field(default_factory=Workers)

    counts: Counts = field(default_factory=Counts)
    load: Load = field(default_factory=Load)
    last_iteration_at: Instant = 0
    stopping: bool = False
    draining: bool = False

    def unreported_for(self, since: Instant) -> Duration:
        """The time since `since` without a report, as far as a report would have been received."""
        listened = self.inbox.listened
        could_speak = max(since, listened.since, self.epoch.reread_at)
        return max(0, listened.until - could_speak)

    def is_alive(self, worker: WorkerView) -> bool:
        """Whether the worker's heartbeats come; time in which none would have been read does not count."""
        return not worker.left and self.unreported_for(worker.last_seen_at) < WORKER_ALIVE_FOR

    def awaits_slots(self) -> bool:
        """Whether a run waits for the end of another that holds its slot, as far as a hundred full limits tell."""
        return any(self.slots.count(use) for use in islice(self.dispatches.closed, _MOST_COMPARED))

    def awaits_slot_of(self, run_id: str) -> bool:
        """Whether runs wait for a slot of a limit that this run holds; also while a new leader does not know it."""
        limits, waiting = self.controls.limits, self.dispatches.waiting
        if not limits:
            return False
        return any(
            use in self.dispatches.closed
            or (use.name in limits and (use.name.removeprefix(QUEUE) in waiting or not self.polls.is_first_answered))
            for use in self.slots.uses(run_id)
        )

    def attempt_over(self, run_id: str) -> None:
        """Forget the state of the run's attempt: the next one starts fresh."""
        self.publishing.attempt_over(run_id)
        self.unstarted.attempt_over(run_id)
        self.running.attempt_over(run_id)
        self.progress.attempt_over(run_id)
