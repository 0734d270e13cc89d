"""Trends: the samples of a window in equal steps, and what changed meanwhile. Only reads.

Promises a bounded number of steps, and that a step in which nobody led has no sample.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import MINUTE, Duration, Instant, format_duration, format_instant
from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.services.past_steps import Versions
from scheduler_service.core.samples import Sample
from scheduler_service.ports.records import AuditFilter

MOST_STEPS: Final = 1_500
_CHANGES: Final = 50
_CHOSEN_FOR: Final = 400
_STEPS: Final = tuple(minutes * MINUTE for minutes in (1, 10, 30, 60, 240, 1440))
_PAUSES: Final = {"queue.pause": "paused", "queue.resume": "resumed"}

MarkKind = Literal["leader", "version", "freeze", "queue"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A change at an instant that may explain what follows; `link` is the page that tells more."""

    at: Instant
    kind: MarkKind
    text: str
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Trends:
    """The steps of a window from `since` on, each with its sample if somebody led, and the marks within."""

    since: Instant
    until: Instant
    step: Duration
    samples: dict[Instant, Sample]
    marks: list[Mark]

    @property
    def times(self) -> range:
        """Return the beginning of each step."""
        return range(self.since, self.until, self.step)


def chosen_step(length: Duration) -> Duration:
    """Return the shortest step by which a window of this length has few enough of them to draw."""
    return next((step for step in _STEPS if length // step <= _CHOSEN_FOR), _STEPS[-1])


def trends(context: ApiContext, since: Instant, until: Instant, step: Duration) -> Trends:
    """Read the window, widened to whole steps; BadValue."""
    _check(since, until, step)
    since -= since % step
    found = context.past_steps.read(context.stores.samples, context.limits, step, since, until, context.clock())
    marks = [*_terms(context, since), *_versions(found.versions), *_freezes(context), *_pauses(context, since)]
    within = [mark for mark in marks if since <= mark.at < until]
    return Trends(since, until, step, found.samples, sorted(within, key=lambda mark: mark.at))


def _check(since: Instant, until: Instant, step: Duration) -> None:
    if until <= since:
        raise BadValue("to", format_instant(until), "give a time after `from`")
    if step < MINUTE or step % MINUTE:
        raise BadValue("step", format_duration(step), "give whole minutes, such as 1m or 10m")
    if (until - since) // step > MOST_STEPS:
        raise BadValue(
            "step", format_duration(step), f"the window has more than {MOST_STEPS:,} of them; give longer ones"
        )


def _terms(context: ApiContext, since: Instant) -> Iterator[Mark]:
    for one in context.stores.samples.terms(since, _CHANGES):
        yield Mark(one.began_at, "leader", f"a leader began term {one.term}")


def _versions(found: Sequence[Versions]) -> Iterator[Mark]:
    """Say where the version of the leader, or of the workers, is another one than before."""
    for before, after in pairwise(found):
        if after.leader != before.leader:
            yield Mark(after.at, "version", f"the leader's version went from {before.leader} to {after.leader}")
        if after.workers != before.workers and after.workers and before.workers:
            old, new = (", ".join(one.workers) for one in (before, after))
            yield Mark(after.at, "version", f"the workers' versions went from {old} to {new}")


def _freezes(context: ApiContext) -> Iterator[Mark]:
    try:
        freezes = context.stores.freeze_store.list(None, _CHANGES, None).items
    except Problem:  # a limited token sees none
        return
    for freeze in freezes:
        if freeze.end is None or freeze.end > freeze.since:
            yield Mark(freeze.since, "freeze", f"freeze {freeze.freeze_id} began: {freeze.reason}", "/freezes")
            if freeze.end is not None:
                yield Mark(freeze.end, "freeze", f"freeze {freeze.freeze_id} ended", "/freezes")


def _pauses(context: ApiContext, since: Instant) -> Iterator[Mark]:
    for action, word in _PAUSES.items():
        for entry in context.stores.audit.list(AuditFilter(action=action, since=since), _CHANGES, None).items:
            yield Mark(entry.at, "queue", f"queue {entry.subject} was {word}", "/queues")
