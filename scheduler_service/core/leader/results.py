"""What the I/O threads tell the loop about effects that they carried out."""

from collections.abc import Mapping
from dataclasses import dataclass

from itinerary.protocol.instants import Instant
from scheduler_service.core.balancing.placements import PlacementFeedback
from scheduler_service.core.index.snapshot import IndexSnapshot
from scheduler_service.core.leader.commands import Apply
from scheduler_service.core.leader.messages import InboxMessage, Report
from scheduler_service.core.leader.poll_state import CancelsRead, DueRead, ExpiredRead, Listened, OverdueRead
from scheduler_service.core.model import ActiveRun, DispatchedRun, JobHistory


@dataclass(frozen=True, slots=True)
class MissedOccurrences:
    """Occurrences of one job that fell due while nobody planned: `newest` are the latest of `count` in all.

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
    """A new generation of the index, and what is owed between `cursor` and its start."""

    snapshot: IndexSnapshot
    revision: int
    cursor: Instant
    missed: tuple[MissedOccurrences, ...]
    failures: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class JobsRead:
    """Jobs as the database has them now."""

    histories: tuple[JobHistory, ...]


@dataclass(frozen=True, slots=True)
class RunsCreated:
    """Of the runs to be made, these were there already."""

    existing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunsDispatched:
    """What came back from the two-phase move."""

    dispatched: tuple[DispatchedRun, ...]
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunsRedispatched:
    """Pending runs that got a new seq and are to be published again."""

    dispatched: tuple[DispatchedRun, ...]
    refused: tuple[str, ...]
    cause: str


@dataclass(frozen=True, slots=True)
class Applied:
    """An Apply is committed; the guards of `refused` did not match."""

    batch: Apply
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunsRead:
    """Runs as the database has them; an id that was asked for and is not here does not exist."""

    asked: tuple[str, ...]
    runs: tuple[ActiveRun, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """The broker took these."""

    runs: tuple[DispatchedRun, ...]
    at: Instant


@dataclass(frozen=True, slots=True)
class PublishUncertain:
    """The broker may or may not have taken these; it answers again."""

    runs: tuple[DispatchedRun, ...]


@dataclass(frozen=True, slots=True)
class ClaimsTaken:
    """(run_id, attempt, won): won means that no worker will ever start this attempt."""

    outcomes: tuple[tuple[str, int, bool], ...]


@dataclass(frozen=True, slots=True)
class ClaimsDeferred:
    """These claims cannot be taken before the generation is accepted."""

    attempts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class WatermarksRaised:
    """Redis has these floors now, and `lowest` for all queues; empty where it did not answer."""

    watermarks: Mapping[str, int]
    lowest: int = 0


@dataclass(frozen=True, slots=True)
class ServerEpoch:
    """A server process with its data, by a name of its own; `watermark` is the one that it was last accepted with."""

    name: str
    accepted: bool
    watermark: int


@dataclass(frozen=True, slots=True)
class EpochSeen:
    """The generation of the Redis that holds claims and inbox, and of the broker; None: unknown, or no Redis."""

    claims: ServerEpoch | None
    broker: ServerEpoch | None


@dataclass(frozen=True, slots=True)
class EpochAccepted:
    """What was accepted with this floor; None where it was not, being another one by now, or away."""

    claims: str | None
    broker: str | None
    watermark: int


@dataclass(frozen=True, slots=True)
class ResultsFound:
    """(run_id, attempt, report): the terminal report found beside the stream, or None."""

    outcomes: tuple[tuple[str, int, Report | None], ...]


@dataclass(frozen=True, slots=True)
class QueuesSeen:
    """Queue name -> (length, seq of the first message of ours or None)."""

    heads: Mapping[str, tuple[int, int | None]]


@dataclass(frozen=True, slots=True)
class InboxRead:
    """Messages of the stream up to `position`.

    `restarted`: the first since the reader was told to begin anew; `again`: they may have been read before.
    """

    messages: tuple[InboxMessage, ...]
    position: str
    restarted: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Begin nothing new; what is in hand is brought to its end. While `draining` workers too end what they have."""

    draining: bool = False


@dataclass(frozen=True, slots=True)
class Woken:
    """Somebody says that runs were committed; which ones, a look at the database tells."""


Feedback = (
    IndexBuilt
    | JobsRead
    | RunsCreated
    | RunsDispatched
    | RunsRedispatched
    | Applied
    | RunsRead
    | DueRead
    | OverdueRead
    | ExpiredRead
    | CancelsRead
    | Published
    | PublishUncertain
    | ClaimsTaken
    | ClaimsDeferred
    | WatermarksRaised
    | EpochSeen
    | EpochAccepted
    | ResultsFound
    | QueuesSeen
    | InboxRead
    | Listened
    | Woken
    | PlacementFeedback
    | Shutdown
)
