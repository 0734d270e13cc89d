"""A schedule that calendars close at times: its own occurrences without those in closed times, or on moved days.

Knows no calendar: core.calendars gives the closed times as an object, and the moved days as days of wall times.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from itinerary.protocol.instants import DAY, HOUR, Duration, Instant

if TYPE_CHECKING:
    from scheduler_service.core.schedules.kinds import OwnSchedule

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
_NONE: Final = np.empty(0, dtype=np.int64)
FURTHEST: Final[Duration] = 5 * 366 * DAY
"""A search for the next occurrence ends after so long without one."""
_FIRST_STEP: Final[Duration] = HOUR
_ENOUGH: Final = 10_000
"""Candidates of a step: with fewer, the next step is twice as long."""
# Many times a second that all lie in short closed times would else take seconds for each year.
_MOST_STEPS: Final = 500


class Times(Protocol):
    """A set of instants, at which a schedule is closed."""

    def closed(self, times: Ints, /) -> Flags:
        """Return for each of these ascending instants whether it is in the set."""

    def opens(self, at: Instant, until: Instant, /) -> Instant:
        """Return the first instant from `at` on outside the set, or `until` if none is before it."""

    def throughout(self, start: Instant, end: Instant, /) -> bool | None:
        """Return whether all of [start, end) is in the set, or nothing of it; None where neither is sure."""


@dataclass(frozen=True, eq=False)
class ClosedSchedule:
    """The occurrences of `fires` outside the closed times, without those of `never`, and with those of `also`.

    `own` is the schedule as the job says it; `fires` is the same, or has its days moved; `by` is what core.calendars
    explains it by. Equal only to itself.
    """

    own: "OwnSchedule"
    fires: "OwnSchedule"
    times: Times | None = None
    also: tuple[Instant, ...] = ()
    never: tuple[Instant, ...] = ()
    by: object = None

    def placed(self, own: "OwnSchedule") -> "ClosedSchedule":
        """Return the same closed times around another schedule of the job, such as one in another place."""
        return replace(self, own=own, fires=own)

    def opens(self, at: Instant, until: Instant) -> Instant:
        """Return the first instant from `at` on that is not closed, or `until` if none is before it."""
        return at if self.times is None else self.times.opens(at, until)

    def kept(self, times: Ints) -> Ints:
        """Return these ascending instants of `fires` and `also` without those that do not fire."""
        return times[~self.dropped(times)]

    def dropped(self, times: Ints) -> Flags:
        """Return for each of these ascending instants of `fires` and `also` whether it does not fire."""
        flags = np.zeros(times.size, dtype=np.bool_) if self.times is None else self.times.closed(times)
        if self.never:
            flags |= np.isin(times, self._never)
        if self.also:
            flags &= ~np.isin(times, self._also)
        return flags

    def open_parts(self, parts: Iterator[Ints], start: Instant, end: Instant) -> Iterator[Ints]:
        """Yield what fires in [start, end), of which `parts` are the instants of `fires`."""
        also = self._also[(self._also >= start) & (self._also < end)]
        if also.size:
            yield self.kept(np.unique(np.concatenate([*parts, also])))
        else:
            yield from map(self.kept, parts)

    @cached_property
    def _never(self) -> Ints:
        return np.asarray(self.never, dtype=np.int64)

    @cached_property
    def _also(self) -> Ints:
        return np.asarray(self.also, dtype=np.int64)


def own_schedule(schedule: Any) -> "OwnSchedule":
    """Return the schedule as the job says it, without calendars."""
    found: OwnSchedule = schedule.own if isinstance(schedule, ClosedSchedule) else schedule
    return found


_From = Callable[["OwnSchedule", Instant], Iterator[Instant]]
_Latest = Callable[["OwnSchedule", Instant, Instant], Instant | None]
_Parts = Callable[["OwnSchedule", Instant, Instant], Iterator[Ints]]


def open_from(schedule: ClosedSchedule, low: Instant, stepped: _From, parts: _Parts) -> Iterator[Instant]:
    """Yield what fires from `low` on, until nothing does for `FURTHEST`; without the instants of `also`."""
    at, end, step, steps = low, low + FURTHEST, _FIRST_STEP, 0
    while at < end and steps < _MOST_STEPS:
        steps += 1
        found = next(stepped(schedule.fires, schedule.opens(at, end)), end)
        if found >= end:
            return
        if (opens := schedule.opens(found, end)) - found > step:  # cheaper than to expand what is closed
            at = opens
            continue
        stop = min(found + step, end)
        candidates = np.concatenate([*parts(schedule.fires, found, stop), _NONE])
        kept = schedule.kept(candidates)
        yield from (int(instant) for instant in kept)
        if kept.size:
            end, steps = int(kept[-1]) + FURTHEST, 0
        at = stop
        step = _next_step(step, candidates.size)


def last_open(schedule: ClosedSchedule, start: Instant, end: Instant, latest: _Latest, parts: _Parts) -> Instant | None:
    """Return the newest instant in [start, end) that fires, or None."""
    newest = max((at for at in schedule.also if start <= at < end), default=None)
    step = _FIRST_STEP
    while (found := latest(schedule.fires, start, end)) is not None and (newest is None or found > newest):
        low = max(start, found + 1 - step)
        candidates = np.concatenate([*parts(schedule.fires, low, found + 1), _NONE])
        kept = schedule.kept(candidates)
        if kept.size:
            return int(kept[-1]) if newest is None else max(newest, int(kept[-1]))
        end, step = low, _next_step(step, candidates.size)
    return newest


def _next_step(step: Duration, candidates: int) -> Duration:
    """Return the length of the step after one with so many candidates."""
    return step * 2 if candidates < _ENOUGH else step
