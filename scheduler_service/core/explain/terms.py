"""Leaderships, as far as they explain a delay: the times without a leader. Pure."""

from collections.abc import Sequence

from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.core.explain.explanation import Because, term_row
from scheduler_service.core.explain.facts import Term


def leader_at(terms: Sequence[Term], at: Instant) -> Term | None:
    """Return the term that lasted at an instant."""
    return next((t for t in terms if t.began_at <= at and (t.ended_at is None or at < t.ended_at)), None)


def unled(terms: Sequence[Term], start: Instant, end: Instant) -> list[Because]:
    """Yield a sentence for each time within [start, end) without a leader, as far as terms are recorded.

    It says since when nobody led, which may be before `start`.
    """
    found: list[Because] = []
    led_until = since = start
    before: Term | None = None
    for term in terms:
        if term.began_at > led_until and led_until < end:
            found.append(_nobody(before, term, since, min(term.began_at, end)))
        if term.ended_at is None:
            return found
        led_until, since, before = max(led_until, term.ended_at), term.ended_at, term
    if led_until < end and before is not None:
        found.append(_nobody(before, None, since, end))
    return found


def _nobody(before: Term | None, after: Term | None, start: Instant, end: Instant) -> Because:
    message = f"Nobody led from {format_instant(start)} to {format_instant(end)}"
    if before is not None:
        message += f": term {before.term} of {before.holder} {_ended(before)}"
    if after is not None:
        message += f"{',' if before is not None else ':'} term {after.term} of {after.holder} began at "
        message += format_instant(after.began_at)
    row = before or after
    return Because(f"{message}.", None if row is None else term_row(row))


def _ended(term: Term) -> str:
    match term.ending:
        case "resigned":
            return "was given up"
        case "stood still":
            return f"was not renewed after {format_instant(term.confirmed_at)}"
        case _:
            return f"lapsed, last confirmed at {format_instant(term.confirmed_at)}"
