"""Results of commands, as the I/O threads report them to the loop. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from itinerary.protocol.instants import Instant
from scheduler_service.core.balancing.placements import PlacementFeedback
from scheduler_service.core.index.snapshot import IndexSnapshot
from scheduler_service.core.leader.commands import Apply
from scheduler_service.core.leader.job_reads import CalendarJobsRead
from scheduler_service.core.leader.lane_reads import LaneFeedback
from scheduler_service.core.leader.messages import InboxMessage, Report
from scheduler_service.core.leader.past_starts import ClockStepped, StartsPruned
from scheduler_service.core.leader.poll_state import (
    CancelsRead,
    ControlsConfirmed,
    ControlsRead,
    DueRead,
    ExpiredRead,
    Listened,
    OverdueRead,
)
from scheduler_service.core.model import ActiveRun, DispatchedRun, JobHistory


@dataclass(frozen=True, slots=True)
class MissedOccurrences:
    """Occurrences of one job that fell due without a leader: `newest` are the latest of `count` in all.

    They lie in [`start`, `end`); `newest` is ascending and bounded by the job's max_catch_up.
    """

    job_id: str
    version: int
    start: Instant
    end: Instant
    count: int
    newest: tuple[Instant, ...]


@dataclass(frozen=True, slots=True)
class IndexBuilt:
    """A new index snapshot, and the missed occurrences between `cursor` and its start."""

    snapshot: IndexSnapshot
    revision: int
    cursor: Instant
    missed: tuple[MissedOccurrences, ...]
    failures: tuple[tuple[str, str], ...]
    calendars: int = 0


@dataclass(frozen=True, slots=True)
class JobsRead:
    """The current definitions of these jobs in the database."""

    histories: tuple[JobHistory, ...]


@dataclass(frozen=True, slots=True)
class UnplannedJobs:
    """Jobs whose newest version the database does not call planned."""

    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunsCreated:
    """The runs of a CreateRuns that existed already, and the number of edits that it marked as planned."""

    existing: tuple[str, ...]
    planned: int = 0


@dataclass(frozen=True, slots=True)
class RunsDispatched:
    """The answer to a DispatchRuns; `outdated`: all were refused, since they were chosen by older edits."""

    dispatched: tuple[DispatchedRun, ...]
    refused: tuple[str, ...]
    outdated: bool = False


@dataclass(frozen=True, slots=True)
class RunsRedispatched:
    """Pending runs that got a new seq and are to be published again."""

    dispatched: tuple[DispatchedRun, ...]
    refused: tuple[str, ...]
    cause: str


@dataclass(frozen=True, slots=True)
class Applied:
    """A committed Apply; the guards of `refused` did not match."""

    batch: Apply
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunsRead:
    """Runs read from the database; an id of `asked` that is not in `runs` does not exist."""

    asked: tuple[str, ...]
    runs: tuple[ActiveRun, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """Runs that the broker accepted at `at`."""

    runs: tuple[DispatchedRun, ...]
    at: Instant


@dataclass(frozen=True, slots=True)
class PublishUncertain:
    """Runs that the broker may or may not have accepted; it is reachable again."""

    runs: tuple[DispatchedRun, ...]


@dataclass(frozen=True, slots=True)
class ClaimsTaken:
    """(run_id, attempt, won) of each claim; won means that no worker will ever start this attempt."""

    outcomes: tuple[tuple[str, int, bool], ...]


@dataclass(frozen=True, slots=True)
class ClaimsRecalled:
    """(run_id, attempt, seq, won) of each mark; won means that no message of this attempt up to seq starts it."""

    outcomes: tuple[tuple[str, int, int, bool], ...]


@dataclass(frozen=True, slots=True)
class ClaimsDeferred:
    """Claims that cannot be taken before the leader accepts the epoch."""

    attempts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class WatermarksRaised:
    """The low watermarks that Redis now holds, and `lowest` for all queues; empty if Redis did not answer."""

    watermarks: Mapping[str, int]
    lowest: int = 0


@dataclass(frozen=True, slots=True)
class ServerEpoch:
    """A server process with its data, by a unique name; `watermark` is that of its last acceptance."""

    name: str
    accepted: bool
    watermark: int


@dataclass(frozen=True, slots=True)
class EpochSeen:
    """The epochs of the Redis that holds claims and inbox, and of the broker. None: unknown, or not a Redis."""

    claims: ServerEpoch | None
    broker: ServerEpoch | None


@dataclass(frozen=True, slots=True)
class EpochAccepted:
    """The epochs accepted with this watermark; None if refused, since the epoch changed or Redis is unreachable."""

    claims: str | None
    broker: str | None
    watermark: int


@dataclass(frozen=True, slots=True)
class ResultsFound:
    """(run_id, attempt, report) of each attempt; report is the stored terminal report, or None."""

    outcomes: tuple[tuple[str, int, Report | None], ...]


@dataclass(frozen=True, slots=True)
class QueuesSeen:
    """Queue name -> (length, seq of the first message of this service or None).

    The length is 0 where no message is ours; `lengths` count all messages.
    """

    heads: Mapping[str, tuple[int, int | None]]
    lengths: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InboxRead:
    """Messages of the stream up to `position`.

    `restarted`: the first read since the reader began again at the start; `again`: they may have been read before.
    """

    messages: tuple[InboxMessage, ...]
    position: str
    restarted: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Start nothing new and finish what is in progress. While `draining`, workers finish their tasks too."""

    draining: bool = False


@dataclass(frozen=True, slots=True)
class Woken:
    """Another process reported committed runs; a poll of the database finds which."""


Feedback = (
    IndexBuilt
    | JobsRead
    | CalendarJobsRead
    | UnplannedJobs
    | RunsCreated
    | RunsDispatched
    | RunsRedispatched
    | Applied
    | RunsRead
    | DueRead
    | OverdueRead
    | ExpiredRead
    | CancelsRead
    | LaneFeedback
    | ControlsConfirmed
    | ControlsRead
    | Published
    | PublishUncertain
    | ClaimsTaken
    | ClaimsRecalled
    | ClaimsDeferred
    | WatermarksRaised
    | EpochSeen
    | EpochAccepted
    | ResultsFound
    | QueuesSeen
    | InboxRead
    | Listened
    | ClockStepped
    | StartsPruned
    | Woken
    | PlacementFeedback
    | Shutdown
)
