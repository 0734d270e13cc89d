"""What the pure step wants done. Values only: the loop hands each to the thread that owns the I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from itinerary.protocol.instants import Instant
from scheduler_service.core.balancing.placements import BalancerCommand, PlacementStoreCommand
from scheduler_service.core.leader.poll_state import ReadCancels, ReadDue, ReadExpired, ReadOverdue
from scheduler_service.core.model import DispatchedRun, JobHistory, MissedRange, NewRun
from scheduler_service.core.run_state import Event, RunState

T = TypeVar("T")

CANCELLED_RUNNING: Final = "cancelled while running"
"""The reason of a run whose cancel was asked for before its attempt ended."""


@dataclass(frozen=True, slots=True)
class Retract:
    """Delete the occurrences of versions older than `version` that are still `scheduled` at or after `start`."""

    job_id: str
    version: int
    start: Instant


@dataclass(frozen=True, slots=True)
class CreateRuns:
    """One transaction: retract, insert what is not there, write gaps, mark planned versions, the cursor last.

    The cursor never goes back, but where `set_back` says so. Where it is None, more runs follow and it comes with the
    last of them; none is moved before. If we die in between, the next leader takes back what lies behind the cursor.
    """

    runs: tuple[NewRun, ...]
    cursor: Instant | None
    retracts: tuple[Retract, ...] = ()
    missed_ranges: tuple[MissedRange, ...] = ()
    planned: tuple[tuple[str, int], ...] = ()
    set_back: bool = False


class Dispatch(NamedTuple):
    """Move this run to `pending`, if it still waits with this attempt; `seq` is stored before it is published."""

    run_id: str
    attempt: int
    seq: int


@dataclass(frozen=True, slots=True)
class DispatchRuns:
    """The two-phase move of one batch of due runs."""

    dispatches: tuple[Dispatch, ...]


@dataclass(frozen=True, slots=True)
class Redispatch:
    """Give these pending runs a new seq; what is still pending with that attempt is published again."""

    dispatches: tuple[Dispatch, ...]
    cause: str


class Transition(NamedTuple):
    """One guarded write: `event` on `attempt` of a run, leading to `to`.

    The guard is the table's sources of `event` and the attempt. `retrying` raises the attempt by one, keeps the
    ended attempt as a row of its own; where a cancel was requested meanwhile the run ends `cancelled` instead, with its
    own reason, and the transition counts as refused. None leaves a column.

    `coalesce`: a skipped occurrence may leave its row for this gap, which goes on where the last one of its reason
    ended; the row is kept where the job was changed since, or the run's cancel was requested.
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


class PublishedMark(NamedTuple):
    """The broker took this attempt at `at`."""

    run_id: str
    attempt: int
    at: Instant


@dataclass(frozen=True, slots=True)
class LateReport:
    """A report of an attempt that is over: kept on that attempt's row, the run is left alone."""

    run_id: str
    attempt: int
    kind: str
    at: Instant
    worker: str
    error: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Apply:
    """One transaction: the transitions and marks, and the inbox position they were read up to.

    `cancels` are runs whose cancel the leader itself requests (overlap cancel_running): cancel_requested_at is set
    where the run is not final and has none. See Cursor for `judged_until`.
    """

    transitions: tuple[Transition, ...]
    published: tuple[PublishedMark, ...] = ()
    late: tuple[LateReport, ...] = ()
    cancels: tuple[str, ...] = ()
    position: str | None = None
    judged_until: Instant | None = None


@dataclass(frozen=True, slots=True)
class ReadRuns:
    """Bring these runs as the database has them."""

    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadJobs:
    """Bring these jobs as they are now."""

    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Publish:
    """Send these released runs to the broker."""

    runs: tuple[DispatchedRun, ...]


@dataclass(frozen=True, slots=True)
class TakeClaims:
    """Try to take the claim of these pending attempts, so that no worker can start them."""

    attempts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class StopTasks:
    """Tell the workers that these running attempts are not wanted: flag and revoke."""

    attempts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ForgetResults:
    """These attempts are committed as over: their result keys may go."""

    attempts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class RaiseWatermarks:
    """Messages of these queues below these numbers start nothing any more, nor those of any queue below `lowest`."""

    watermarks: Mapping[str, int]
    lowest: int


@dataclass(frozen=True, slots=True)
class ForgetAttempts:
    """The floor has passed these ended attempts: nothing of them needs to be kept."""

    attempts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class QueryEpoch:
    """Bring the generation of Redis and of the broker."""


@dataclass(frozen=True, slots=True)
class AcceptEpoch:
    """Let workers start again: in this generation of Redis, by messages from `watermark` on. None: it is accepted.

    `broker` is the generation of the broker in which everything pending below `watermark` is about to be sent again.
    """

    claims: str | None
    broker: str | None
    watermark: int


@dataclass(frozen=True, slots=True)
class RereadInbox:
    """The stream may be another one: read it from its start."""


@dataclass(frozen=True, slots=True)
class ReadResults:
    """Before these attempts are called lost: is there a report that the stream did not bring?"""

    attempts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class InspectQueues:
    """Bring the length and the head of these queues."""

    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrimInbox:
    """Entries at or before `position` are committed and may go."""

    position: str


@dataclass(frozen=True, slots=True)
class BuildIndex:
    """Expand these jobs: what is owed in [`cursor`, now), and the index from there to `end`."""

    jobs: tuple[JobHistory, ...]
    cursor: Instant
    now: Instant
    end: Instant
    revision: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a query."""

    reply_to: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReplyMetrics:
    """The answer to a query for the leader's metrics, which only the loop's owner can write out."""

    reply_to: str


@dataclass(frozen=True, slots=True)
class RecordStatistics:
    """One row of statistics; dropped when the syncer is behind."""

    at: Instant
    active_runs: int
    index_runs: int
    lag: int


StoreCommand = (
    CreateRuns | DispatchRuns | Redispatch | Apply | ReadRuns | ReadDue | ReadOverdue | ReadExpired | ReadCancels
    | ReadJobs | RecordStatistics | PlacementStoreCommand
)  # fmt: skip
BrokerCommand = (
    Publish
    | TakeClaims
    | StopTasks
    | ForgetResults
    | RaiseWatermarks
    | ForgetAttempts
    | QueryEpoch
    | AcceptEpoch
    | ReadResults
    | InspectQueues
    | TrimInbox
    | Reply
    | ReplyMetrics
)
Command = StoreCommand | BrokerCommand | BuildIndex | BalancerCommand | RereadInbox


def in_parts(rows: Sequence[T], size: int) -> list[tuple[T, ...]]:
    """The rows in parts of at most `size`; of none, one empty part."""
    return [tuple(rows[i : i + size]) for i in range(0, len(rows), size)] or [()]
