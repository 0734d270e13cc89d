"""Placements of balanced intervals: what is decided about them, how it is ordered and what comes of it. Values only.

A balanced job has no times of its own: the leader gives it a `placed_anchor`, which is neither of the definition nor of
its version. It is kept through edits that leave the rhythm alone, and lost with a changed interval, a resume from a
pause, a deletion: then the job is silent until it is placed afresh.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from itinerary.protocol.errors import MalformedEntry
from itinerary.protocol.instants import Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.balancing.distribution import Distribution
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import UNPLACED, IntervalSchedule

Cause = Literal["new", "reschedule", "rebalance"]
RebalanceKind = Literal["preview", "rebalance", "undo"]
_KINDS: Final = ("preview", "rebalance", "undo")
_MAX_TEXT: Final = 300


def rhythm_of(job: Job) -> IntervalSchedule | None:
    """The schedule of a job that the scheduler places; None for any other."""
    schedule = job.schedule
    return schedule if isinstance(schedule, IntervalSchedule) and schedule.balanced else None


def placed(job: Job, anchor: Instant, at: Instant) -> Job:
    """The job with its occurrences counted from `anchor`, as decided at `at`; its version stays."""
    rhythm = rhythm_of(job)
    if rhythm is None:
        return job
    return replace(job, schedule=rhythm.placed(anchor), placed_anchor=anchor, placed_at=at)


def carry_place(before: Job | None, after: Job) -> Job:
    """The next version with the place that the one before had, where that still holds; else without any."""
    if before is not None and before.placed_anchor is not None and before.placed_at is not None:
        then, now = rhythm_of(before), rhythm_of(after)
        resumed = before.paused and not after.paused
        if then is not None and now is not None and then.every == now.every and not before.deleted and not resumed:
            return placed(after, before.placed_anchor, before.placed_at)
    unplaced = replace(after, placed_anchor=None, placed_at=None)
    return placed_nowhere(unplaced)


def placed_nowhere(job: Job) -> Job:
    """The job, silent if it is one that the scheduler places."""
    rhythm = rhythm_of(job)
    return job if rhythm is None else replace(job, schedule=rhythm.placed(UNPLACED))


@dataclass(frozen=True, slots=True)
class Placement:
    """One job's place: guarded by the version that was looked at and the anchor that it has (`replaces`)."""

    job_id: str
    version: int
    replaces: Instant | None
    anchor: Instant
    load: int = 0
    cause: Cause = "new"


@dataclass(frozen=True, slots=True)
class Move:
    """A job that a rebalance moves: its next occurrence was to be at `old_time` and is to be at `new_time`."""

    job_id: str
    version: int
    old_anchor: Instant
    old_time: Instant
    new_time: Instant
    why: str = ""


@dataclass(frozen=True, slots=True)
class Skip:
    """A job that a rebalance leaves where it is."""

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class RebalancePlan:
    """What a rebalance would do; preview and execution are this same plan.

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
    """Somebody wants a rebalance, its preview, or the last one undone, and waits at `reply_to`.

    `plan_id` names the plan to carry out, or the one to be made.
    """

    kind: RebalanceKind
    reply_to: str
    plan_id: str
    known_plan: bool
    actor: str
    role: str

    @property
    def audited_change(self) -> AuditedChange:
        """Who does what, for the audit log."""
        return AuditedChange(self.actor, self.role, f"scheduler.{self.kind}")


@dataclass(frozen=True, slots=True)
class RebalanceOrder:
    """The plan that a PlaceJobs carries out, and who wants it."""

    plan: RebalancePlan
    asked: RebalanceAsked


def read_asked(body: Mapping[str, Any]) -> RebalanceAsked:
    """The request from an inbox entry's body; MalformedEntry says what is wrong with it."""
    texts = {name: body.get(name) for name in ("kind", "reply_to", "plan_id", "actor", "role")}
    for name, text in texts.items():
        if not isinstance(text, str) or not 0 < len(text) <= _MAX_TEXT:
            raise MalformedEntry(f"{name} must be a text of 1 to {_MAX_TEXT} characters")
    if texts["kind"] not in _KINDS or not isinstance(body.get("known_plan"), bool):
        raise MalformedEntry(f"kind must be one of {', '.join(_KINDS)}, and known_plan true or false")
    return RebalanceAsked(**texts, known_plan=body["known_plan"])  # type: ignore[arg-type]  # looked at above


# Effects and what came of them


@dataclass(frozen=True, slots=True)
class PlaceJobs:
    """One transaction: give these jobs their places, each guarded; versions stay. A rebalance is recorded with it."""

    placements: tuple[Placement, ...]
    at: Instant
    order: RebalanceOrder | None = None


@dataclass(frozen=True, slots=True)
class JobsPlaced:
    """A PlaceJobs is committed; the guards of `refused` did not match."""

    command: PlaceJobs
    refused: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReadRebalance:
    """Bring what the last rebalance moved, so that it can be undone."""

    asked: RebalanceAsked


@dataclass(frozen=True, slots=True)
class MovedBefore:
    """A job that the last rebalance moved from one anchor to another."""

    job_id: str
    old_anchor: Instant
    new_anchor: Instant


@dataclass(frozen=True, slots=True)
class RebalanceRead:
    """What the last rebalance moved; None where there was none, or it was undone already."""

    asked: RebalanceAsked
    moved: tuple[MovedBefore, ...] | None


@dataclass(frozen=True, slots=True)
class FollowJobs:
    """The balancer's orders: jobs as they are now. What has no place yet is given one, at `earliest` or later."""

    jobs: tuple[Job, ...]
    now: Instant
    earliest: Instant


@dataclass(frozen=True, slots=True)
class PlacesFound:
    """Places for jobs that had none."""

    placements: tuple[Placement, ...]
    at: Instant


@dataclass(frozen=True, slots=True)
class Survey:
    """See how the 24 hours from slot `base` are filled; what `reply_to` waits for may be `body` with the score."""

    now: Instant
    reply_to: str | None = None
    base: int | None = None
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What a survey saw."""

    order: Survey
    seen: Distribution


@dataclass(frozen=True, slots=True)
class PlanRebalance:
    """Make a plan; `busy` are jobs with a run that is out, `since` the instant from which no occurrence has a row yet.

    With `undo`, the plan takes these moves back.
    """

    asked: RebalanceAsked
    now: Instant
    since: Instant
    busy: frozenset[str]
    undo: tuple[MovedBefore, ...] | None = None


@dataclass(frozen=True, slots=True)
class RebalancePlanned:
    """The plan that was asked for."""

    asked: RebalanceAsked
    plan: RebalancePlan


PlacementStoreCommand = PlaceJobs | ReadRebalance
BalancerCommand = FollowJobs | Survey | PlanRebalance
PlacementFeedback = JobsPlaced | RebalanceRead | PlacesFound | Surveyed | RebalancePlanned
