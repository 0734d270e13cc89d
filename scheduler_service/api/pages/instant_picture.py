"""An explanation as a picture: a time axis with the instant, the steps of the run, what held it, and who led. Pure.

Draws the times of the rows behind the explanation, so it shows no more than its sentences say.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.instants import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Duration, Instant, parse_instant
from scheduler_service.api.pages.moments import length, moment
from scheduler_service.core.explain.explanation import Explanation, Verdict

_STEPS: Final = (
    ("scheduled_at", "planned"), ("due_at", "due"), ("pending_at", "dispatched"), ("started_at", "started"),
    ("finished_at", "finished"),
)  # fmt: skip
_TICKS: Final = 5
_EVERY: Final = (
    100 * MILLISECOND, 200 * MILLISECOND, 500 * MILLISECOND,
    SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE,
    HOUR, 2 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 30 * DAY, 90 * DAY, 365 * DAY,
)  # fmt: skip
_SHORTEST: Final = 200 * MILLISECOND
_ALONE: Final = 10 * SECOND
_EDGE: Final = 5
_FIRST_HALF: Final = 60
VERDICTS: Final[Mapping[Verdict, str]] = {
    Verdict.COMPLETED: "It ran and completed", Verdict.FAILED: "It ran and failed",
    Verdict.LOST: "Its worker was lost", Verdict.TIMED_OUT: "It was stopped at its timeout",
    Verdict.UNROUTABLE: "The broker did not take it", Verdict.CANCELLED: "It was cancelled",
    Verdict.RUNNING: "It runs", Verdict.RETRYING: "It failed and is tried again", Verdict.WAITING: "It waits",
    Verdict.WAITING_FOR_LIMIT: "It waits for a limit", Verdict.WAITING_FOR_WORKER: "It waits for a worker",
    Verdict.NO_WORKER: "No worker takes it", Verdict.NO_LEADER: "Nobody leads",
    Verdict.NOT_YET_DUE: "It is not due yet", Verdict.NEVER_DUE: "It was never due then",
    Verdict.EDITED_AWAY: "An edit took it away", Verdict.DELETED: "The job was deleted",
    Verdict.PAUSED: "The job was paused", Verdict.FROZEN: "A freeze held it",
    Verdict.CLOSED: "Its calendars left it out", Verdict.OUT_OF_BOUNDS: "It lay outside of the job's bounds",
    Verdict.OVERLAP: "Another run was in its way", Verdict.MISFIRE: "It was too late to run",
    Verdict.REFUSED: "The database refused it", Verdict.UNKNOWN: "Nobody can say any more",
}  # fmt: skip
"""The verdicts as the headline of their story."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A point of the axis: its place in percent of the width, and whether its label stands left of it."""

    at: float
    label: str
    kind: str
    is_late: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """A span of the axis, cut at its ends; in percent of the width."""

    at: float
    width: float
    label: str
    kind: str


@dataclass(frozen=True, slots=True)
class InstantPicture:
    """The lines of the picture from top to bottom: spans, then points; `asked` is the place of the instant."""

    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    ticks: tuple[Mark, ...]
    asked: float | None
    text: str


@dataclass(frozen=True, slots=True)
class _Span:
    start: Instant
    end: Instant | None
    label: str
    kind: str


def picture_of(why: Explanation, now: Instant) -> InstantPicture | None:
    """Draw the explanation; None if its rows name no time near the instant."""
    points = list(_points(why))
    asked = why.at if why.at is not None else points[0][0] if points else None
    if asked is None:
        return None
    first = min(at for at, _, _ in [*points, (asked, "", "")])
    last = max(at for at, _, _ in [*points, (asked, "", "")])
    margin = max((last - first) // 6, _SHORTEST) if last > first else _ALONE
    start, end = first - margin, last + margin
    place = _Axis(start, end).place
    spans = [span for span in _spans(why) if span.start < end and (span.end is None or span.end > start)]
    bars = [_bar(span, start, end, now) for span in spans]
    marks = [Mark(place(at), _label(text, at, asked), kind, place(at) > _FIRST_HALF) for at, text, kind in points]
    text = ", ".join([*(mark.label for mark in marks), *(bar.label for bar in bars)]) or "the instant alone"
    return InstantPicture(tuple(bars), tuple(marks), tuple(_ticks(start, end)), place(asked), text)


@dataclass(frozen=True, slots=True)
class _Axis:
    start: Instant
    end: Instant

    def place(self, at: Instant) -> float:
        return round(100 * (min(max(at, self.start), self.end) - self.start) / (self.end - self.start), 2)


def _points(why: Explanation) -> Iterator[tuple[Instant, str, str]]:
    row = next((b.row for b in why.because if b.row and b.row["table"] == "runs" and _is_own(b.row, why)), None)
    for name, text in _STEPS if row is not None else ():
        if row is not None and row.get(name):
            yield parse_instant(row[name]), text, name.removesuffix("_at")
    before, after = why.nearest
    if before is not None:
        yield before, "the run before", "near"
    if after is not None:
        yield after, "the run after", "near"


def _is_own(row: Mapping[str, Any], why: Explanation) -> bool:
    return why.run_id is None or row["run_id"] == why.run_id


def _spans(why: Explanation) -> Iterator[_Span]:
    for row in (because.row for because in why.because):
        if row is None:
            continue
        match row["table"]:
            case "freezes":
                yield _Span(parse_instant(row["from"]), _end(row["ended_at"] or row["until"]), "frozen", "held")
            case "gaps":
                yield _Span(parse_instant(row["start_at"]), _end(row["end_at"]), "left out", "held")
            case "job_versions" if row["paused"]:
                yield _Span(parse_instant(row["effective_from"]), _end(row["paused_until"]), "paused", "held")
            case "leases" | "leaderships":
                ended = row["ended_at"] or (row["confirmed_at"] if row["ending"] else None)
                yield _Span(parse_instant(row["began_at"]), _end(ended), f"{row['holder']} led", "led")
            case "runs" if not _is_own(row, why) and row.get("started_at"):
                yield _Span(parse_instant(row["started_at"]), _end(row["finished_at"]), "another run", "other")


def _end(text: str | None) -> Instant | None:
    return None if text is None else parse_instant(text)


def _bar(span: _Span, start: Instant, end: Instant, now: Instant) -> Bar:
    place = _Axis(start, end).place
    left, right = place(span.start), place(min(now, end) if span.end is None else span.end)
    return Bar(left, max(right - left, 0.5), span.label, span.kind)


def _label(text: str, at: Instant, asked: Instant) -> str:
    if at == asked:
        return text
    return f"{text} {'+' if at > asked else '−'}{length(abs(at - asked))}"


def _ticks(start: Instant, end: Instant) -> Iterator[Mark]:
    every = _step(end - start)
    for at in range(start + every - start % every, end, every):
        place, wall = _Axis(start, end).place(at), moment(at, 0).wall
        label = wall[:10] if every >= DAY else wall[11:19] if every >= SECOND else wall[11:21]
        if _EDGE < place < 100 - _EDGE:
            yield Mark(place, label, "tick", False)


def _step(width: Duration) -> Duration:
    return next((every for every in _EVERY if width // every <= _TICKS), _EVERY[-1])
