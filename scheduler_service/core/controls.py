"""Controls of users over dispatches, as the database keeps them: pauses, limits, freezes. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.core.freezes import Freeze
from scheduler_service.core.limits import Bounds, Limit


@dataclass(frozen=True, slots=True)
class QueuePause:
    """A pause of a queue: the leader dispatches none of its runs before `until`, or before somebody resumes it."""

    reason: str
    since: Instant
    by: str
    until: Instant | None = None

    def holds(self, now: Instant) -> bool:
        """Whether the queue is still paused."""
        return self.until is None or now < self.until

    def text(self, queue: str) -> str:
        """The pause as explanations and reasons of runs name it."""
        until = "" if self.until is None else f" until {format_instant(self.until)}"
        return f"queue {queue} is paused since {format_instant(self.since)} by {self.by}{until}: {self.reason}"


class CalendarEdit(NamedTuple):
    """A version of a calendar, by the version of all edits that it made, and when it begins."""

    revision: int
    calendar_id: str
    effective_from: Instant


@dataclass(frozen=True, slots=True)
class Controls:
    """All pauses by queue, all limits by name, the queues in which lanes take turns, and freezes, past ones too.

    `version` is that of the edits: a leader dispatches only by the newest one. The limits of queues are among `limits`.
    Each edit that is not among them is dated after `read_at`. `calendars`: the edits of calendars since those that the
    reader knew.
    """

    version: int = 0
    pauses: Mapping[str, QueuePause] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    fair: frozenset[str] = frozenset()
    freezes: tuple[Freeze, ...] = ()
    calendars: tuple[CalendarEdit, ...] = ()
    read_at: Instant = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class QueueDefinition:
    """A queue as users define it: its purpose, its own bounds, and whether its lanes take turns."""

    description: str = ""
    bounds: Bounds = field(default_factory=Bounds)
    fair: bool = False


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as users see it; `defined`: somebody defined or paused it.

    `waiting` counts due runs that are not dispatched, up to a bound (`waiting_more`: there are more); `pending` those
    dispatched and not started. `in_flight_more`: more are in flight than were counted.
    """

    name: str
    defined: bool
    definition: QueueDefinition
    pause: QueuePause | None
    waiting: int
    waiting_more: bool
    pending: int
    running: int
    in_flight_more: bool = False
