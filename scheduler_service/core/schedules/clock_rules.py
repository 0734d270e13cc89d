"""The clock rules: which wall times count when a zone's clocks jump, and which instants they are.

Owns the only decisions about gap and fold; the expansion of many jobs and the stepping of one both use the timelines
built here. A WILDCARD schedule follows elapsed time: every instant whose wall time matches. A FIXED one fires at the
first instant at which the zone's clocks have reached the wall time, unless the job overrides it. Whole seconds
throughout. Never knows what a schedule matches.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from scheduler_service.core.schedules.zones import DAY_SECONDS, changes_between, offset_at

GapRule = Literal["next_valid", "shift", "skip"]
FoldRule = Literal["first", "last", "both"]
# No gap or fold since 1960 is longer than 26 hours, so this margin around a window decides everything in it.
_AROUND: Final = 3 * DAY_SECONDS


@dataclass(frozen=True, slots=True)
class ClockRule:
    """A schedule's behaviour at a jump of the clocks; `gap` and `fold` apply to fixed schedules only."""

    wildcard: bool
    gap: GapRule = "next_valid"
    fold: FoldRule = "first"


WILDCARD: Final = ClockRule(wildcard=True)
FIXED: Final = ClockRule(wildcard=False)


@dataclass(frozen=True, slots=True)
class Span:
    """Instants [start, end) whose wall time is the instant plus `offset`, and counts."""

    start: int
    end: int
    offset: int


@dataclass(frozen=True, slots=True)
class CatchUp:
    """At `at`, one run for all matching wall times in [local_start, local_end) together."""

    at: int
    local_start: int
    local_end: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """A zone in one window, under one rule."""

    spans: tuple[Span, ...]
    catch_ups: tuple[CatchUp, ...] = ()

    @property
    def quiet(self) -> bool:
        """Whether the window has one offset throughout, so that no rule matters in it."""
        return len(self.spans) == 1 and not self.catch_ups


def timeline(zone: str, rule: ClockRule, start: int, end: int) -> Timeline:
    """Build the spans and catch-ups of [start, end); spans overlap only if a gap is shifted."""
    segments = _segments(zone, start - _AROUND, end + _AROUND)
    if len(segments) == 1:
        return Timeline((Span(start, end, segments[0].offset),))
    if rule.wildcard:
        return Timeline(_within(segments, start, end))
    jumps = _gaps(segments)
    spans = _folded(segments, rule.fold)
    if rule.gap == "shift":
        spans += [Span(j.at, j.at + j.local_end - j.local_start, j.local_start - j.at) for j in jumps]
    caught_up = jumps if rule.gap == "next_valid" else []
    return Timeline(_within(spans, start, end), tuple(j for j in caught_up if start <= j.at < end))


def reached(zone: str, local: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the first instants at which the zone's clocks reach these wall times, and which of them exist.

    A skipped wall time is reached where its gap ends; one of a whole skipped day does not exist.
    """
    at, exists = np.empty_like(local), np.ones(local.shape, dtype=np.bool_)
    if not local.size:
        return at, exists
    until: int | None = None
    for segment in _segments(zone, int(local.min()) - _AROUND - DAY_SECONDS, int(local.max()) + _AROUND + DAY_SECONDS):
        opens, ends = segment.start + segment.offset, segment.end + segment.offset
        first = opens if until is None else until
        fresh = (local >= first) & (local < ends)
        at[fresh] = np.maximum(local[fresh] - segment.offset, segment.start)
        if opens - first >= DAY_SECONDS:
            exists[(local >= first) & (local < opens)] = False
        until = max(first, ends)
    return at, exists


def _segments(zone: str, start: int, end: int) -> list[Span]:
    found, at, offset = [], start, offset_at(zone, start)
    for change in changes_between(zone, start + 1, end):
        found.append(Span(at, change.at, offset))
        at, offset = change.at, change.after
    found.append(Span(at, end, offset))
    return found


def _gaps(segments: list[Span]) -> list[CatchUp]:
    """Return the skipped wall times, each gap with the instant that ended it; a whole skipped day has no run."""
    found, reached = [], segments[0].end + segments[0].offset
    for segment in segments[1:]:
        opens = segment.start + segment.offset
        if 0 < opens - reached < DAY_SECONDS:
            found.append(CatchUp(segment.start, reached, opens))
        reached = max(reached, segment.end + segment.offset)
    return found


def _folded(segments: list[Span], fold: FoldRule) -> list[Span]:
    match fold:
        case "both":
            return list(segments)
        case "first":
            return _first_passes(segments)
        case "last":
            return _last_passes(segments)


def _first_passes(segments: list[Span]) -> list[Span]:
    kept, reached = [segments[0]], segments[0].end + segments[0].offset
    for segment in segments[1:]:
        kept.append(Span(max(segment.start, reached - segment.offset), segment.end, segment.offset))
        reached = max(reached, segment.end + segment.offset)
    return kept


def _last_passes(segments: list[Span]) -> list[Span]:
    kept, returns = [segments[-1]], segments[-1].start + segments[-1].offset
    for segment in reversed(segments[:-1]):
        kept.append(Span(segment.start, min(segment.end, returns - segment.offset), segment.offset))
        returns = min(returns, segment.start + segment.offset)
    return kept[::-1]


def _within(spans: list[Span], start: int, end: int) -> tuple[Span, ...]:
    clipped = (Span(max(s.start, start), min(s.end, end), s.offset) for s in spans)
    return tuple(s for s in clipped if s.start < s.end)
