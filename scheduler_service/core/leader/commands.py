"""Commands of the leader's step, values: each names one piece of I/O for the thread that owns it. Does none itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from itinerary.protocol.instants import Instant
from itinerary.protocol.limits import LimitUse
from itinerary.protocol.progress import Progress
from scheduler_service.core.balancing.placements import BalancerCommand, PlacementStoreCommand
from scheduler_service.core.leader.job_reads import ReadCalendarJobs, ReadJobs
from scheduler_service.core.leader.lane_reads import LaneCommand
from scheduler_service.core.leader.past_starts import PruneStarts, ShiftStarts
from scheduler_service.core.leader.poll_state import ReadCancels, ReadControls, ReadDue, ReadExpired, ReadOverdue
from scheduler_service.core.model import DispatchedRun, JobHistory, MissedRange, NewRun
from scheduler_service.core.pings import Ping
from scheduler_service.core.run_state import Event, RunState

CANCELLED_RUNNING: Final = "cancelled while running"
"""The reason of a run whose cancel was asked for before its attempt ended."""


@dataclass(frozen=True, slots=True)
class Retract:
    """Delete the occurrences of versions older than `version` that are still `scheduled` at or after `start`.

    And the missed ranges that begin there, unless `version` is planned: who judged them did not know of the edit.
    """

    job_id: str
    version: int
    start: Instant


@dataclass(frozen=True, slots=True)
class CreateRuns:
    """One transaction: retract, insert missing rows, write missed ranges, mark planned versions; the cursor comes last.

    The cursor never goes back, except with `set_back`. If `cursor` is None, more batches follow and the last one
    carries it; none of their runs is dispatched before. LeaseLost where the cursor passes the beginning of a calendar's
    version that was made after the edits of `control`. After a crash in between, the next leader retracts the rows at
    or after the stored cursor.
    """

    runs: tuple[NewRun, ...]
    cursor: Instant | None
    retracts: tuple[Retract, ...] = ()
    missed_ranges: tuple[MissedRange, ...] = ()
    planned: tuple[tuple[str, int], ...] = ()
    set_back: bool = False
    control: int | None = None


class Dispatch(NamedTuple):
    """Set this run `pending` if it still waits with this attempt and in this queue (None: any); `seq` is stored."""

    run_id: str
    attempt: int
    seq: int
    queue: str | None = None


@dataclass(frozen=True, slots=True)
class DispatchRuns:
    """The two-phase dispatch of due runs of a queue, chosen by the edits of version `control`, not after `until`."""

    dispatches: tuple[Dispatch, ...]
    queue: str = ""
    control: int = 0
    until: Instant | None = None


@dataclass(frozen=True, slots=True)
class Redispatch:
    """Give these pending runs a new seq. Runs that are still pending with that attempt are published again."""

    dispatches: tuple[Dispatch, ...]
    cause: str


class Transition(NamedTuple):
    """One guarded write: `event` on `attempt` of a run, leading to `to`; None leaves a column unchanged.

    The guard checks the attempt and that the run's state is a source of `event`. `retrying` raises the attempt by one
    and keeps the ended one as its own row. If a cancel was requested meanwhile, the run ends `cancelled` with its own
    reason, and the transition counts as refused.

    `coalesce`: a skipped occurrence may replace its row by this missed range, which extends the last one with the same
    reason. The row is kept if the job changed since, or if a cancel of the run was requested. `starts`: the uses of
    limits that count it as a start. `pings` and the last `progress` are stored with it.
    """

    run_id: str
    attempt: int
    event: Event
    to: RunState
    at: Instant
    reason: str | None = None
    due_at: Instant | None = None
    started_at: Instant | None = None
    worker: str | None = None
    result: Any = None
    error: Mapping[str, Any] | None = None
    args: list[Any] | None = None
    kwargs: Mapping[str, Any] | None = None
    coalesce: MissedRange | None = None
    starts: tuple[LimitUse, ...] = ()
    pings: tuple[Ping, ...] = ()
    progress: Progress | None = None


class PublishedMark(NamedTuple):
    """The time `at` which the broker accepted this attempt."""

    run_id: str
    attempt: int
    at: Instant


@dataclass(frozen=True, slots=True)
class LateReport:
    """A report of an attempt that is over. The store keeps it with that attempt and leaves the run unchanged."""

    run_id: str
    attempt: int
    kind: str
    at: Instant
    worker: str
    error: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Apply:
    """One transaction: the transitions, the marks, and the inbox position up to which they were read.

    `cancels` are runs that the leader itself cancels: the store sets cancel_requested_at if the run is not final and
    has none. See Cursor for `judged_until`.
    `awaited`: runs wait for slots that it frees, so it is written at once. `then`: these take such slots in the same
    transaction, unless a transition is refused.
    """

    transitions: tuple[Transition, ...]
    published: tuple[PublishedMark, ...] = ()
    late: tuple[LateReport, ...] = ()
    cancels: tuple[str, ...] = ()
    position: str | None = None
    judged_until: Instant | None = None
    awaited: bool = False
    then: tuple[DispatchRuns, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadRuns:
    """Read these runs from the database."""

    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish these dispatched runs to the broker."""

    runs: tuple[DispatchedRun, ...]


@dataclass(frozen=True, slots=True)
class TakeClaims:
    """Try to take the claim of these pending attempts, so that no worker can start them."""

    attempts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class RecallClaims:
    """Mark these pending attempts (run_id, attempt, seq): no message up to seq starts them, unless one has already."""

    attempts: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class StopTasks:
    """Ask the workers to stop these running attempts: set the cancel flag and revoke."""

    attempts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ForgetResults:
    """Delete the result keys of these attempts, whose ends are committed."""

    attempts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class RaiseWatermarks:
    """Refuse messages of each queue below its low watermark, and messages of any queue below `lowest`."""

    watermarks: Mapping[str, int]
    lowest: int


@dataclass(frozen=True, slots=True)
class ForgetAttempts:
    """Delete what Redis keeps of these ended attempts: the low watermark has passed them."""

    attempts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class QueryEpoch:
    """Query the epochs of Redis and of the broker."""


@dataclass(frozen=True, slots=True)
class AcceptEpoch:
    """Let workers claim again in this epoch of Redis, from messages at or above `watermark`. None: already accepted.

    `broker` is the epoch of the broker in which the leader will redispatch every pending run below `watermark`.
    """

    claims: str | None
    broker: str | None
    watermark: int


@dataclass(frozen=True, slots=True)
class RereadInbox:
    """Read the inbox stream from its start: it may be a different stream."""


@dataclass(frozen=True, slots=True)
class ReadResults:
    """Read the stored reports of these attempts: the stream may have lost one. Precedes declaring them lost."""

    attempts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class InspectQueues:
    """Query the length and the first message of these queues."""

    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrimInbox:
    """Delete inbox entries at or before `position`, which is committed."""

    position: str


@dataclass(frozen=True, slots=True)
class BuildIndex:
    """Expand these jobs: missed occurrences in [`cursor`, now), cut at `edges`, and the index from there to `end`."""

    jobs: tuple[JobHistory, ...]
    cursor: Instant
    now: Instant
    end: Instant
    revision: int
    edges: tuple[Instant, ...] = ()
    calendars: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a query; `failure`: what kept the leader from giving it."""

    reply_to: str
    body: Mapping[str, Any]
    failure: Exception | None = None


@dataclass(frozen=True, slots=True)
class ReplyMetrics:
    """The answer to a query for the leader's metrics, which the loop's owner renders."""

    reply_to: str


StoreCommand = (
    CreateRuns | DispatchRuns | Redispatch | Apply | ReadRuns | ReadDue | ReadOverdue | ReadExpired | ReadCancels
    | ReadControls | ReadJobs | PruneStarts | ShiftStarts | PlacementStoreCommand | LaneCommand | ReadCalendarJobs
)  # fmt: skip
BrokerCommand = (
    TakeClaims | RecallClaims | StopTasks | ForgetResults | RaiseWatermarks | ForgetAttempts | QueryEpoch
    | AcceptEpoch | ReadResults | InspectQueues | TrimInbox | Reply | ReplyMetrics
)  # fmt: skip
Command = StoreCommand | Publish | BrokerCommand | BuildIndex | BalancerCommand | RereadInbox
