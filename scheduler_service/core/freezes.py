"""Freezes as the database keeps them: a scope of runs that does not start for a time. Values and pure rules."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from itinerary.protocol.instants import DAY, Instant, format_instant

FREEZE_SKIPS: Final = "skipped by freeze"
"""The first words of every reason of an occurrence that a freeze skips."""
HELD_BY_FREEZE: Final = "held by freeze"
"""The first words of every text about what a freeze holds back."""
FREEZES_KEPT: Final = DAY
"""A freeze that ended so long before what is to be planned judges no occurrence any more."""
FREEZES_A_DAY: Final = 1_000
"""So many may hold within FREEZES_KEPT: a leader keeps all by which an occurrence may still be judged."""
NEVER: Final[Instant] = 2**62
"""Later than every instant: the end of a freeze without one."""


class During(StrEnum):
    """The fate of an occurrence that falls due within the freeze."""

    HOLD = "hold"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Scope:
    """The runs that a freeze meets: all, or those of queues, of jobs with a tag, of jobs."""

    everything: bool = False
    queues: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    jobs: frozenset[str] = frozenset()

    def meets(self, queue: str, job_id: str | None, tags: Collection[str]) -> bool:
        """Whether a run of this queue and of this job with these tags is in scope; a run without a job has none."""
        return (
            self.everything
            or queue in self.queues
            or (job_id is not None and (job_id in self.jobs or not self.tags.isdisjoint(tags)))
        )


def scope_text(scope: Mapping[str, Any]) -> str:
    """The scope, given as users write it, in a line."""
    if scope.get("all"):
        return "everything"
    return "; ".join(f"{kind} {', '.join(names)}" for kind, names in scope.items())


@dataclass(frozen=True, slots=True)
class Freeze:
    """A freeze from `since` on. `until`: when it ends by itself; `ended_at`, `ended_by`: when and by whom it was ended.

    One that was ended before it began has never held.
    """

    freeze_id: int
    scope: Scope
    since: Instant
    reason: str
    by: str
    during: During = During.HOLD
    until: Instant | None = None
    created_at: Instant = 0
    ended_at: Instant | None = None
    ended_by: str | None = None

    @property
    def end(self) -> Instant | None:
        """When it ends or has ended; None while nobody knows."""
        ends = [at for at in (self.until, self.ended_at) if at is not None]
        return min(ends, default=None)

    def covers(self, at: Instant) -> bool:
        """Whether it holds at this instant."""
        end = self.end
        return self.since <= at and (end is None or at < end)

    def is_over(self, now: Instant) -> bool:
        """Whether it never holds again."""
        return self.end is not None and self.end <= now

    def name(self) -> str:
        """The freeze as reasons name it, with nothing that a later edit changes."""
        return f"{self.freeze_id} since {format_instant(self.since)} by {self.by}: {self.reason}"

    def held(self) -> str:
        """The freeze as a run's explanation names it while it holds."""
        until = "" if self.end is None else f" (until {format_instant(self.end)})"
        return f"{HELD_BY_FREEZE} {self.name()}{until}"

    def held_until(self) -> str:
        """The freeze as the explanation of a run names it after its end."""
        return self.held() if self.end is None else f"{HELD_BY_FREEZE} {self.name()}, until {format_instant(self.end)}"

    def held_too_many(self, most: int) -> str:
        """The reason of an occurrence that is older than the `most` of its job that wait for the end."""
        return f"{HELD_BY_FREEZE} {self.name()}; of one job at most {most} occurrences wait for its end"

    def skipped(self) -> str:
        """The reason of each occurrence that it skips."""
        return f"{FREEZE_SKIPS} {self.name()}"


class FreezeStatus(StrEnum):
    """Whether a freeze holds now."""

    ACTIVE = "active"
    COMING = "coming"
    PAST = "past"


@dataclass(frozen=True, slots=True)
class NewFreeze:
    """A freeze as it is asked for; `since` None: from now on."""

    scope: Scope
    reason: str
    during: During = During.HOLD
    since: Instant | None = None
    until: Instant | None = None


@dataclass(frozen=True, slots=True)
class FreezeCounts:
    """Runs in scope that run on, and those that were dispatched and neither started nor recalled yet.

    `more`: not all runs in flight were counted.
    """

    running: int
    pending: int
    more: bool = False


def status_of(freeze: Freeze, now: Instant) -> FreezeStatus:
    """Whether the freeze holds, is to come, or is over."""
    if freeze.is_over(now):
        return FreezeStatus.PAST
    return FreezeStatus.ACTIVE if freeze.since <= now else FreezeStatus.COMING


def holding(freezes: Iterable[Freeze], at: Instant) -> tuple[Freeze, ...]:
    """The freezes that hold at this instant, the oldest first."""
    return tuple(sorted((one for one in freezes if one.covers(at)), key=lambda one: (one.since, one.freeze_id)))


def late_from(freezes: Sequence[Freeze], due_at: Instant) -> Instant:
    """The instant from which a run is late: its due time, or the end of the freezes that held it from then on."""
    at = due_at
    while at < NEVER and (ends := [NEVER if one.end is None else one.end for one in freezes if one.covers(at)]):
        at = max(ends)
    return at


def skipping(freezes: Iterable[Freeze], due_at: Instant) -> Freeze | None:
    """The freeze that skips an occurrence due at this instant."""
    return next((one for one in holding(freezes, due_at) if one.during is During.SKIP), None)
