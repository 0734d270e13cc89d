"""Times, durations and runs in the form that pages show. Pure."""

import json
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant, format_instant
from scheduler_service.core.explain.relative import relative, rough
from scheduler_service.core.model import Run
from scheduler_service.core.run_state import FINAL, RunState

SHAPES: Final = {
    RunState.SCHEDULED: "○", RunState.PENDING: "◔", RunState.RUNNING: "●", RunState.RETRYING: "↻",
    RunState.COMPLETED: "✓", RunState.FAILED: "✕", RunState.CANCELLED: "⊘", RunState.SKIPPED: "»", RunState.MISSED: "!",
}  # fmt: skip
"""A shape beside each colour, so that no reader depends on colour alone."""


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant: relative words, and the exact time."""

    iso: str
    text: str

    @property
    def clock(self) -> str:
        """Return the time to the second, without its date."""
        return self.iso[11:19]

    @property
    def exact(self) -> str:
        """Return date and time to the millisecond, in fixed length, for columns compared line by line."""
        return f"{self.plain}.{(self.iso[20:-1] + '000')[:3]}"

    @property
    def plain(self) -> str:
        """Return date and time to the second, for tables."""
        return f"{self.iso[:10]} {self.iso[11:19]}"


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run in a list."""

    run_id: str
    job_id: str | None
    task: str
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


def moment(instant: Instant, now: Instant) -> Moment:
    """Describe an instant as seen from `now`."""
    return Moment(format_instant(instant), relative(instant, now))


def optional_moment(instant: Instant | None, now: Instant) -> Moment | None:
    """Like `moment`, for an instant that may be absent."""
    return None if instant is None else moment(instant, now)


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


def run_line(run: Run, now: Instant) -> RunLine:
    """Describe a run of a list as seen from `now`."""
    ended = run.finished_at if run.finished_at is not None else now
    took = ended - run.started_at if run.started_at is not None else None
    waited = run.started_at - run.due_at if run.started_at is not None else None
    over = run.state in FINAL
    return RunLine(
        run.run_id, run.job_id, run.task, run.state.value, SHAPES[run.state], moment(run.scheduled_at, now),
        length(waited), length(took), run.worker, run.reason or (run.error.message if run.error else None),
        f"{run.run_id}~{run.attempt}", run.attempt, over, run.cancel_requested_at is not None and not over,
    )  # fmt: skip


def pretty(value: Any) -> str:
    """Format JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)
