"""Descriptions of a job's calendars, which follow the sentence of its schedule."""

from collections.abc import Sequence

from scheduler_service.core.calendars.model import JobCalendars


def calendar_text(calendars: JobCalendars) -> str:
    """Return the end of the schedule's sentence."""
    moves = {"skip": "", "next_day": "the next", "previous_day": "the previous"}[calendars.when_excluded]
    found = []
    if calendars.exclude:
        found.append(f"except {'on days of' if moves else 'in'} {_named(calendars.exclude, 'and')}")
    if calendars.only:
        found.append(f"only {'on days of' if moves else 'in'} {_named(calendars.only, 'or')}")
    if moves:
        found.append(f"a day that is closed moves to {moves} open one")
    if calendars.workdays is not None:
        found.append(f"with the free days of calendar {calendars.workdays}")
    return "".join(f", {text}" for text in found)


def _named(ids: Sequence[str], word: str) -> str:
    if len(ids) == 1:
        return f"calendar {ids[0]}"
    return f"calendars {', '.join(ids[:-1])} {word} {ids[-1]}"
