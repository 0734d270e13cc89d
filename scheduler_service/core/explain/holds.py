"""Explains what holds a run: a pause of its queue, or a freeze; what freezes did before, and will do. Pure."""

from collections.abc import Iterator
from typing import Final

from itinerary.protocol.instants import Instant
from scheduler_service.core.contract.freeze_json import freeze_body
from scheduler_service.core.explain.explanation import Because, Verdict
from scheduler_service.core.explain.facts import Facts
from scheduler_service.core.freezes import Freeze, holding, late_from, skipping
from scheduler_service.core.model import Run, RunKind
from scheduler_service.core.run_state import RunState

_MOST_NAMED: Final = 20


def held_now(run: Run, facts: Facts) -> tuple[Verdict, list[Because]] | None:
    """Name the pause or the freeze that holds the run now."""
    if facts.queue_pause is not None:
        text = facts.queue_pause.text(run.queue)
        waits = Because("It waits until the queue is resumed.")
        return Verdict.PAUSED, [Because(f"{text[0].upper()}{text[1:]}."), waits]
    held_by = next(iter(holding(facts.freezes, facts.now)), None)
    if held_by is None:
        return None
    named = _sentence(f"It is {held_by.held()}.", held_by, facts)
    return Verdict.FROZEN, [named, Because("It waits for the end of the freeze.")]


def held_before(facts: Facts, since: Instant, until: Instant) -> Iterator[Because]:
    """Name the freezes that ended while it waited, of many the last ones."""
    ended = [one for one in facts.freezes if one.end is not None and since < one.end <= until and one.since < one.end]
    for one in ended[-_MOST_NAMED:]:
        by = f", when {one.ended_by} ended it" if one.ended_by is not None and one.end == one.ended_at else ""
        yield _sentence(f"It was {one.held_until()}{by}.", one, facts)


def to_come(run: Run, facts: Facts) -> list[Because]:
    """Name the freeze that will skip the run or hold it at its due time."""
    return coming(facts, run.due_at, planned=run.kind is RunKind.OCCURRENCE and run.state is RunState.SCHEDULED)


def coming(facts: Facts, due_at: Instant, *, planned: bool) -> list[Because]:
    """Name the freeze that will skip what falls due then, if a schedule planned it, or hold it."""
    skips = skipping(facts.freezes, due_at) if planned else None
    if skips is not None:
        return [_sentence(f"It will be {skips.skipped()}.", skips, facts)]
    if late_from(facts.freezes, due_at) == due_at:
        return []
    holds = holding(facts.freezes, due_at)[0]
    return [_sentence(f"It will be {holds.held()}.", holds, facts)]


def _sentence(text: str, freeze: Freeze, facts: Facts) -> Because:
    return Because(text, {"table": "freezes", **freeze_body(freeze, None, facts.now)})
