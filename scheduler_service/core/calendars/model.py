"""Calendars as values: a compiled set of instants, its versions, and what a job says of the calendars it names.

A compiled calendar is what is stored: every host that plans by a version reads the same days, whatever its libraries
know. Values only; other modules read rules and close schedules.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Self

from itinerary.protocol.instants import Instant

WhenExcluded = Literal["skip", "next_day", "previous_day"]
UNNAMED: Final = ""


class NamedDays(NamedTuple):
    """Whole days of the calendar's zone, `first` to `last` included, as day numbers since 1970-01-01."""

    first: int
    last: int
    name: str = UNNAMED


class NamedSpan(NamedTuple):
    """Instants [`start`, `end`)."""

    start: Instant
    end: Instant
    name: str = UNNAMED


class Weekly(NamedTuple):
    """Times of each week in the calendar's zone: bit 0 of `days` is Sunday, `start` and `end` are seconds of the day.

    Where `end` is not after `start` the time crosses midnight and belongs to the day it begins on; both 0: whole days.
    """

    days: int
    start: int = 0
    end: int = 0
    name: str = UNNAMED


@dataclass(frozen=True, slots=True)
class Compiled:
    """A set of instants: the days, spans and weekly times of a calendar's rules, with holidays and ICS written out.

    `known_until` is the day number up to which holidays and ICS are written out; None without such rules.
    """

    timezone: str
    days: tuple[NamedDays, ...] = ()
    spans: tuple[NamedSpan, ...] = ()
    weekly: tuple[Weekly, ...] = ()
    known_until: int | None = None

    @property
    def whole_days(self) -> bool:
        """Whether it consists of whole days of its zone, as shifts and `workdays` need it."""
        return not self.spans and all(w.start == w.end == 0 for w in self.weekly)

    def to_json(self) -> dict[str, Any]:
        """Return it as stored; `from_json` reads it back."""
        return {
            "timezone": self.timezone, "days": [list(d) for d in self.days], "spans": [list(s) for s in self.spans],
            "weekly": [list(w) for w in self.weekly], "known_until": self.known_until,
        }  # fmt: skip

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(
            body["timezone"], tuple(NamedDays(*d) for d in body["days"]), tuple(NamedSpan(*s) for s in body["spans"]),
            tuple(Weekly(*w) for w in body["weekly"]), body["known_until"],
        )  # fmt: skip


class CalendarVersion(NamedTuple):
    """A calendar's content from `effective_from` on, until its next version."""

    calendar_id: str
    version: int
    effective_from: Instant
    compiled: Compiled


@dataclass(frozen=True, slots=True)
class JobCalendars:
    """The calendars of a job, by id: closed in `exclude`, open only in `only`.

    `when_excluded` says where an occurrence of a closed day goes; `workdays` is the calendar of days that are no
    business days.
    """

    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    when_excluded: WhenExcluded = "skip"
    workdays: str | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all calendars it names, each once."""
        named = (*self.exclude, *self.only, *((self.workdays,) if self.workdays is not None else ()))
        return tuple(dict.fromkeys(named))
