"""The bar over all attempts of a run, and the durations of each. Pure.

Promises that every part can be seen, however short it is beside the others, and that parts follow each other in the
order of time.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.api.pages.moments import Moment, length, moment
from scheduler_service.core.attempts import Attempt
from scheduler_service.core.model import Run
from scheduler_service.core.run_state import FINAL

WIDTH: Final = 1000
_LEAST: Final = 6
_MOST_ATTEMPTS: Final = 20
_NAMES: Final = {
    "early": "before its due time",
    "waiting": "waiting for dispatch",
    "dispatched": "dispatched, not yet published",
    "published": "published, waiting for a worker",
    "running": "running",
    "pause": "pause before a retry",
}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a run's time; `is_open`: it is not over."""

    kind: str
    attempt: int
    start: Instant
    end: Instant
    is_open: bool = False

    @property
    def duration(self) -> Duration:
        """Return how long it took so far."""
        return max(0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class Segment:
    """A part as it is drawn, in thousandths of the bar."""

    kind: str
    x: int
    width: int
    text: str


@dataclass(frozen=True, slots=True)
class Total:
    """The time of all parts of a kind."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Bar:
    """The picture: its segments, what each kind took, its ends (None: now), and how many attempts it lacks."""

    segments: list[Segment]
    totals: list[Total]
    start: Moment
    end: Moment | None
    left_out: int

    @property
    def text(self) -> str:
        """Return the picture as text."""
        return "; ".join(segment.text for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Durations:
    """The waits of one attempt, to the millisecond."""

    waited: str | None
    queued: str | None
    ran: str | None


def bar(run: Run, attempts: Sequence[Attempt], now: Instant) -> Bar | None:
    """Return the bar of the last attempts; None before the run's time has come."""
    shown = attempts[-_MOST_ATTEMPTS:]
    parts = [part for part in _parts(run, shown, now) if part.end > part.start or part.kind == "running"]
    if not parts:
        return None
    widths = _widths([part.duration for part in parts])
    segments, x = [], 0
    for part, width in zip(parts, widths, strict=True):
        so_far = " so far" if part.is_open else ""
        text = f"attempt {part.attempt}: {_NAMES[part.kind]} {precise(part.duration)}{so_far}"
        segments.append(Segment(part.kind, x, width, text))
        x += width
    by_kind = {kind: [part for part in parts if part.kind == kind] for kind in _NAMES}
    totals = [
        Total(kind, f"{_NAMES[kind]} {precise(sum(part.duration for part in of_kind))}")
        for kind, of_kind in by_kind.items() if of_kind
    ]  # fmt: skip
    left_out = len(attempts) - len(shown)
    end = None if parts[-1].is_open else moment(parts[-1].end, now)
    return Bar(segments, totals, moment(parts[0].start, now), end, left_out)


def durations(attempt: Attempt, since: Instant | None, now: Instant) -> Durations:
    """Return the waits of an attempt that could go since `since`."""
    ended = attempt.finished_at or (now if attempt.started_at is not None else None)
    return Durations(
        _between(since, attempt.pending_at),
        _between(attempt.pending_at, attempt.started_at),
        _between(attempt.started_at, ended),
    )


def precise(duration: Duration) -> str:
    """Format a duration with milliseconds where they matter: `12 ms`, `3.412 s`, `2 min 5 s`."""
    if SECOND <= duration < 60 * SECOND:
        return f"{duration / SECOND:.3f} s"
    return length(duration) or "0 ms"


def _between(start: Instant | None, end: Instant | None) -> str | None:
    return None if start is None or end is None else precise(max(0, end - start))


def _parts(run: Run, attempts: Sequence[Attempt], now: Instant) -> Iterator[Part]:
    """The parts in the order of time; an instant that another machine's clock set too early does not count."""
    before: Instant | None = None
    for attempt in attempts:
        if before is None and attempt.attempt == 1:
            yield from _first_wait(run, attempt.pending_at or now, is_over=attempt.pending_at is not None)
        elif before is not None and attempt.pending_at is not None:
            yield Part("pause", attempt.attempt, before, max(before, attempt.pending_at))
        before = yield from _of_attempt(attempt, before, now)
    if run.pending_at is None and run.state not in FINAL:
        if before is None:
            yield from _first_wait(run, now, is_over=False)
        elif now > before:
            yield Part("pause", run.attempt, before, now, is_open=True)
    elif run.pending_at is None and before is None and run.finished_at is not None:
        yield from _first_wait(run, run.finished_at, is_over=True)


def _first_wait(run: Run, until: Instant, *, is_over: bool) -> Iterator[Part]:
    # A retry moves the due time: of a run that was retried the first one is not known any more.
    due_at = run.scheduled_at if run.attempts else run.due_at
    if run.scheduled_at < due_at:
        yield Part("early", 1, run.scheduled_at, min(due_at, until), is_open=not is_over and until < due_at)
    if due_at < until:
        yield Part("waiting", 1, due_at, until, is_open=not is_over)


def _of_attempt(attempt: Attempt, before: Instant | None, now: Instant) -> Generator[Part, None, Instant | None]:
    """The parts of an attempt after its dispatch; returns when it ended."""
    at, number = attempt.pending_at, attempt.attempt
    if at is None:
        return before
    published, started = attempt.published_at, attempt.started_at
    if published is not None:
        published = max(at, published if started is None else min(published, started))
        yield Part("dispatched", number, at, published)
        at = published
    if started is not None:
        yield Part("published", number, at, max(at, started))
        at = max(at, started)
    kind = "running" if started is not None else "published" if published is not None else "dispatched"
    end = max(at, now if attempt.finished_at is None else attempt.finished_at)
    yield Part(kind, number, at, end, is_open=attempt.finished_at is None)
    return end


def _widths(durations: Sequence[Duration]) -> list[int]:
    """Widths in thousandths that add up, none too small to be seen."""
    whole = max(1, sum(durations))
    room = WIDTH - _LEAST * len(durations)
    widths = [_LEAST + room * duration // whole for duration in durations]
    longest = max(range(len(widths)), key=lambda place: widths[place])
    widths[longest] += WIDTH - sum(widths)
    return widths
