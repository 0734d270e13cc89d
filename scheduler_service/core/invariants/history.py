"""The history as the invariants read it, and their findings. Values only; the rules are beside them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from itinerary.protocol.instants import MINUTE, SECOND, Duration, Instant
from scheduler_service.core.attempts import Attempt
from scheduler_service.core.model import JobHistory, MissedRange, Overlap, RunKind
from scheduler_service.core.run_state import RunState


class Rule(StrEnum):
    """The kinds of findings."""

    LOST = "lost"
    """An occurrence that fell due has neither a row nor a gap."""
    DOUBLED = "doubled"
    """An attempt was started twice, or an occurrence has two rows."""
    UNPLANNED = "unplanned"
    """A row for an instant that its version of the job does not name."""
    UNKNOWN = "unknown"
    """Something was started that the history does not have."""
    EARLY = "early"
    """Released or started before it was due."""
    UNRELEASED = "unreleased"
    """Started without having been released, or before that."""
    AFTER_END = "after_end"
    """Started after it had been cancelled or had ended."""
    ATTEMPTS = "attempts"
    """More attempts than the run may have."""
    CONTRADICTION = "contradiction"
    """A state that its own timestamps or attempts deny."""
    STUCK = "stuck"
    """Overdue, not final, and nobody works on it."""
    OVERLAP = "overlap"
    """Two runs of a job at once, though its policy forbids that."""
    UNPROVEN = "unproven"
    """Completed, but the workers' record has no start or no end of it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation: the rule, the run or job concerned, and the error in a sentence."""

    rule: Rule
    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The fields of one run that the rules need; `retries` are those its task requested, `attempts` the ended ones."""

    run_id: str
    kind: RunKind
    job_id: str | None
    job_version: int | None
    queue: str
    scheduled_at: Instant
    due_at: Instant
    state: RunState
    attempt: int
    max_attempts: int
    retries: int
    overlap: Overlap | None
    timeout: Duration | None
    reason: str | None
    pending_at: Instant | None
    started_at: Instant | None
    finished_at: Instant | None
    attempts: tuple[Attempt, ...] = ()
    cancel_requested_at: Instant | None = None
    recalled_at: Instant | None = None


@dataclass(slots=True)
class Execution:
    """A worker's record of one attempt: the start of its code, and the number of its ends."""

    starts: list[Instant] = field(default_factory=list)
    ends: int = 0


ExecutionLog = dict[tuple[str, int], Execution]


@dataclass(frozen=True, slots=True)
class History:
    """Everything to check. `runs` come by (job id, scheduled_at); those without a job before or after all others.

    `now` is the database's time before anything else was read; planned up to `cursor`; `since`: earlier occurrences are
    not judged.
    """

    now: Instant
    cursor: Instant | None
    since: Instant | None
    jobs: Sequence[JobHistory]
    missed_ranges: Sequence[MissedRange]
    runs: Iterable[RunFacts]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """`skew`: how far the clocks of hosts may differ; `stuck_after`: how long overdue work may stay untouched.

    A queue with `window` runs in flight is full, and runs waiting for it are not stuck.
    """

    skew: Duration = SECOND
    stuck_after: Duration = 15 * MINUTE
    window: int = 10_000
