"""Times, durations and runs in the form that pages show.

The one place that writes a time for a page and reads one that was typed there, in the reader's zone (`reader_zone`).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant, format_instant, parse_instant
from scheduler_service.api.pages.reader_zone import (
    absolute,
    is_repeated,
    offset_text,
    reader_zone,
    wall_time,
)
from scheduler_service.core.contract.progress_text import progress_text
from scheduler_service.core.explain.relative import relative, rough
from scheduler_service.core.model import Run
from scheduler_service.core.run_state import FINAL, RunState

SHAPES: Final = {
    RunState.SCHEDULED: "○", RunState.PENDING: "◔", RunState.RUNNING: "●", RunState.RETRYING: "↻",
    RunState.COMPLETED: "✓", RunState.FAILED: "✕", RunState.CANCELLED: "⊘", RunState.SKIPPED: "»", RunState.MISSED: "!",
}  # fmt: skip
"""A shape beside each colour, so that no reader depends on colour alone."""


_IN_SENTENCE: Final = re.compile(r"(?<![\w:+-])\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z(?!\w)")


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant: relative words, and the exact time in the reader's zone.

    `repeated` is the zone's offset where its clocks show this time twice, else empty.
    """

    iso: str
    text: str
    wall: str
    repeated: str = ""

    @property
    def clock(self) -> str:
        """Return the time to the second, without its date."""
        return f"{self.wall[11:19]}{self.repeated}"

    @property
    def exact(self) -> str:
        """Return date and time to the millisecond, in fixed length, for columns compared line by line."""
        return f"{self.wall[:10]} {self.wall[11:23]}{self.repeated}"

    @property
    def plain(self) -> str:
        """Return date and time to the second, for tables."""
        return f"{self.wall[:10]} {self.wall[11:19]}{self.repeated}"

    @property
    def offset(self) -> int:
        """Return the seconds that clocks of the zone are ahead of UTC."""
        return (parse_instant(f"{self.wall}Z") - parse_instant(self.iso)) // SECOND

    @property
    def full(self) -> str:
        """Return the time to the millisecond with its zone, for the text beside a pointer."""
        return f"{self.exact} {reader_zone().name}"


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run in a list."""

    run_id: str
    job_id: str | None
    task: str
    queue: str
    state: str
    shape: str
    scheduled: Moment
    waited: str | None
    took: str | None
    worker: str | None
    reason: str | None
    task_id: str
    attempt: int
    over: bool
    stopping: bool
    due: Moment
    started: Moment | None
    finished: Moment | None
    progress: str | None = None


def moment(instant: Instant, now: Instant) -> Moment:
    """Describe an instant as seen from `now`."""
    repeated = f" {offset_text(instant)}" if is_repeated(instant) else ""
    return Moment(format_instant(instant), relative(instant, now), wall_time(instant), repeated)


def plain_time(instant: Instant) -> str:
    """Return an instant as `Moment.plain` does; a page of charts has thousands, which need no more of it."""
    wall = wall_time(instant)
    repeated = f" {offset_text(instant)}" if is_repeated(instant) else ""
    return f"{wall[:10]} {wall[11:19]}{repeated}"


def optional_moment(instant: Instant | None, now: Instant) -> Moment | None:
    """Like `moment`, for an instant that may be absent."""
    return None if instant is None else moment(instant, now)


def sentence_times(text: str) -> str:
    """Write the times of a sentence, which are in UTC, in the reader's zone: to the millisecond where they have one."""
    return _IN_SENTENCE.sub(lambda found: _short(found.group()), text)


def _short(text: str) -> str:
    try:
        found = moment(parse_instant(text), 0)
    except BadValue:
        return text
    return found.exact if "." in text else found.plain


def typed_time(text: str, between: str = " ") -> str:
    """Write a time of a field again, in the reader's zone; what is no time stays as it was typed."""
    try:
        instant = read_time(text, "")
    except BadValue:
        return text
    wall = wall_time(instant)
    clock = wall[11:19] if wall[17:19] != "00" else wall[11:16]
    return f"{wall[:10]}{between}{clock}" + (offset_text(instant) if is_repeated(instant) and between == " " else "")


def read_time(text: str, field: str) -> Instant:
    """Read a time of an address: RFC 3339, or by the zone that the address names, else UTC; BadValue."""
    try:
        return parse_instant(utc_text(text), field)
    except BadValue:
        allowed = f"give a time such as 2026-12-01 16:00 ({reader_zone().name}) or 2026-12-01T16:00:00+01:00"
        raise BadValue(field, text, allowed) from None


def utc_text(text: str) -> str:
    """Return a time of an address as RFC 3339, read like `read_time`; what is no time as it was typed."""
    return absolute(text, reader_zone().typed)


def length(duration: Duration | None) -> str | None:
    """Format a duration in two units at most: `12 ms`, `3.4 s`, `2 min 5 s`."""
    if duration is None:
        return None
    duration = max(0, duration)
    if duration < SECOND:
        return f"{duration // 1000} ms"
    if duration < 10 * SECOND:
        return f"{duration / SECOND:.1f} s"
    for size, name, below, below_name in (
        (DAY, "d", HOUR, "h"),
        (HOUR, "h", MINUTE, "min"),
        (MINUTE, "min", SECOND, "s"),
    ):
        if duration >= size:
            rest = duration % size // below
            return f"{duration // size} {name} {rest} {below_name}" if rest else f"{duration // size} {name}"
    return rough(duration)


def run_line(run: Run, now: Instant, shown: Mapping[str, Any] | None = None) -> RunLine:
    """Describe a run of a list as seen from `now`; `shown` is its progress."""
    ended = run.finished_at if run.finished_at is not None else now
    took = ended - run.started_at if run.started_at is not None else None
    waited = run.started_at - run.due_at if run.started_at is not None else None
    over = run.state in FINAL
    return RunLine(
        run.run_id, run.job_id, run.task, run.queue, run.state.value, SHAPES[run.state], moment(run.scheduled_at, now),
        length(waited), length(took), run.worker, run.reason or (run.error.message if run.error else None),
        f"{run.run_id}~{run.attempt}", run.attempt, over, run.cancel_requested_at is not None and not over,
        moment(run.due_at, now), optional_moment(run.started_at, now), optional_moment(run.finished_at, now),
        progress_text(shown) if shown else None,
    )  # fmt: skip


def pretty(value: Any) -> str:
    """Format JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)
