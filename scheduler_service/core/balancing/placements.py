"""Placements of balanced intervals: decisions, commands and results. Values only.

A balanced job has no times of its own: the leader gives it a `placed_anchor`, which belongs neither to the definition
nor to its version. Edits that keep the rhythm keep the anchor. A changed interval, a resume from a pause, or a deletion
drops it; the job then has no occurrences until it is placed again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from itinerary.protocol.errors import MalformedEntry
from itinerary.protocol.instants import Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.balancing.distribution import Distribution
from scheduler_service.core.model import Job, JobHistory
from scheduler_service.core.schedules.schedule import UNPLACED, ClosedSchedule, IntervalSchedule, Schedule, own_schedule

Cause = Literal["new", "reschedule", "rebalance"]
RebalanceKind = Literal["preview", "rebalance", "undo"]
_KINDS: Final = ("preview", "rebalance", "undo")
_MAX_TEXT: Final = 300


def rhythm_of(job: Job | JobHistory) -> IntervalSchedule | None:
    """Return the (present) schedule of a job that the scheduler places; None for any other."""
    schedule = own_schedule(job.schedule)
    return schedule if isinstance(schedule, IntervalSchedule) and schedule.balanced else None


def placed(job: Job, anchor: Instant, at: Instant) -> Job:
    """Return the job with its occurrences counted from `anchor`, as decided at `at`; its version is unchanged."""
    rhythm = rhythm_of(job)
    if rhythm is None:
        return job
    return replace(job, schedule=rhythm_at(job.schedule, anchor), placed_anchor=anchor, placed_at=at)


def rhythm_at(schedule: Schedule, anchor: Instant) -> Schedule:
    """Return an interval counted from `anchor`, as closed as it was; any other schedule as it is."""
    if isinstance(schedule, ClosedSchedule) and isinstance(schedule.own, IntervalSchedule):
        return schedule.placed(schedule.own.placed(anchor))
    return schedule.placed(anchor) if isinstance(schedule, IntervalSchedule) else schedule


def carry_place(before: Job | None, after: Job) -> Job:
    """Carry the previous version's place over to the next version if it still applies; else without any."""
    if before is not None and before.placed_anchor is not None and before.placed_at is not None:
        then, now = rhythm_of(before), rhythm_of(after)
        resumed = before.paused and not after.paused
        if then is not None and now is not None and then.every == now.every and not before.deleted and not resumed:
            return placed(after, before.placed_anchor, before.placed_at)
    unplaced = replace(after, placed_anchor=None, placed_at=None)
    return placed_nowhere(unplaced)


def placed_nowhere(job: Job) -> Job:
    """Return the job; one that the scheduler places is without occurrences."""
    rhythm = rhythm_of(job)
    return job if rhythm is None else replace(job, schedule=rhythm_at(job.schedule, UNPLACED))


@dataclass(frozen=True, slots=True)
class Placement:
    """One job's place: guarded by the version it was decided for and its previous anchor (`replaces`)."""

    job_id: str
    version: int
    replaces: Instant | None
    anchor: Instant
    load: int = 0
    cause: Cause = "new"


@dataclass(frozen=True, slots=True)
class Move:
    """A job that a rebalance moves: its next occurrence moves from `old_time` to `new_time`."""

    job_id: str
    version: int
    old_anchor: Instant
    old_time: Instant
    new_time: Instant
    why: str = ""


@dataclass(frozen=True, slots=True)
class Skip:
    """A job that a rebalance does not move."""

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class RebalancePlan:
    """The moves of a rebalance; preview and execution are this same plan.

    `slots` and `projected_slots` are the loads of the 96 slots from `base` on, before and after.
    """

    plan_id: str
    kind: RebalanceKind
    base: int
    created_at: Instant
    moves: tuple[Move, ...]
    skips: tuple[Skip, ...]
    slots: tuple[int, ...]
    projected_slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RebalanceAsked:
    """A request for a rebalance, its preview, or its undoing; the answer goes to `reply_to`.

    `plan_id` names the plan to carry out, or the one to create.
    """

    kind: RebalanceKind
    reply_to: str
    plan_id: str
    known_plan: bool
    actor: str
    role: str

    @property
    def audited_change(self) -> AuditedChange:
        """Return the author and kind of the change, for the audit log."""
        return AuditedChange(self.actor, self.role, f"scheduler.{self.kind}")


@dataclass(frozen=True, slots=True)
class RebalanceOrder:
    """The plan that a PlaceJobs carries out, and its requester."""

    plan: RebalancePlan
    asked: RebalanceAsked


def read_asked(body: Mapping[str, Any]) -> RebalanceAsked:
    """Parse the request from an inbox entry's body; MalformedEntry names the error."""
    texts = {name: body.get(name) for name in ("kind", "reply_to", "plan_id", "actor", "role")}
    for name, text in texts.items():
        if not isinstance(text, str) or not 0 < len(text) <= _MAX_TEXT:
            raise MalformedEntry(f"{name} must be a text of 1 to {_MAX_TEXT} characters")
    if texts["kind"] not in _KINDS or not isinstance(body.get("known_plan"), bool):
        raise MalformedEntry(f"kind must be one of {', '.join(_KINDS)}, and known_plan true or false")
    return RebalanceAsked(**texts, known_plan=body["known_plan"])  # type: ignore[arg-type]  # looked at above


# Effects and their results


@dataclass(frozen=True, slots=True)
class PlaceJobs:
    """One transaction: give these jobs their places, each guarded; versions do not change.

    A rebalance is recorded with it.
    """

    placements: tuple[Placement, ...]
    at: Instant
    order: RebalanceOrder | None = None


@dataclass(frozen=True, slots=True)
class JobsPlaced:
    """The result of a committed PlaceJobs; the guards of `refused` did not match."""

    command: PlaceJobs
    refused: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReadRebalance:
    """Read the moves of the last rebalance, to undo it."""

    asked: RebalanceAsked


@dataclass(frozen=True, slots=True)
class MovedBefore:
    """A job that the last rebalance moved from one anchor to another."""

    job_id: str
    old_anchor: Instant
    new_anchor: Instant


@dataclass(frozen=True, slots=True)
class RebalanceRead:
    """The moves of the last rebalance; None if there was none, or it was undone already."""

    asked: RebalanceAsked
    moved: tuple[MovedBefore, ...] | None


@dataclass(frozen=True, slots=True)
class FollowJobs:
    """A command to the balancer: jobs as they are now. It places those without a place, at `earliest` or later."""

    jobs: tuple[JobHistory, ...]
    now: Instant
    earliest: Instant


@dataclass(frozen=True, slots=True)
class PlacesFound:
    """Places for jobs that had none."""

    placements: tuple[Placement, ...]
    at: Instant


@dataclass(frozen=True, slots=True)
class Survey:
    """Measure the load of the 24 hours from slot `base`.

    If `body` is set, reply to `reply_to` with it plus the score.
    """

    now: Instant
    reply_to: str | None = None
    base: int | None = None
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The result of a survey."""

    order: Survey
    seen: Distribution


@dataclass(frozen=True, slots=True)
class PlanRebalance:
    """Plan a rebalance; with `undo`, reverse these moves.

    `busy` are jobs with a run in flight, `since` the instant from which no occurrence has a row yet.
    """

    asked: RebalanceAsked
    now: Instant
    since: Instant
    busy: frozenset[str]
    undo: tuple[MovedBefore, ...] | None = None


@dataclass(frozen=True, slots=True)
class RebalancePlanned:
    """The requested plan."""

    asked: RebalanceAsked
    plan: RebalancePlan


PlacementStoreCommand = PlaceJobs | ReadRebalance
BalancerCommand = FollowJobs | Survey | PlanRebalance
PlacementFeedback = JobsPlaced | RebalanceRead | PlacesFound | Surveyed | RebalancePlanned
