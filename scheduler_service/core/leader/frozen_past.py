"""Missed occurrences of a job that freezes met: each is judged by the freeze at its due time, the others by lateness.

Promises that every missed occurrence without a row is kept or lies in exactly one missed range. The range's reason is
what kept it from running. Of those that freezes held at most `max_catch_up` are kept. One beyond the listed newest is
judged as the beginning of its span: it would not be kept in any case.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from itinerary.protocol.instants import MICROSECOND, Instant
from scheduler_service.core.freezes import Freeze, holding, late_from
from scheduler_service.core.leader.frozen import freezes_of, skipping_freeze
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.model import ActiveRun, Job, Misfire, MissedRange
from scheduler_service.core.policies import judge_lateness
from scheduler_service.core.schedules.jitter import jitter_of


@dataclass(frozen=True, slots=True)
class Unlisted:
    """`count` missed occurrences in [`start`, `end`) that are older than the listed ones of their span."""

    start: Instant
    end: Instant
    count: int


@dataclass(frozen=True, slots=True)
class FrozenPast:
    """The judgement: occurrences to keep, missed ranges of the others, late rows, how many were skipped and missed."""

    kept: list[tuple[Job, Instant]]
    ranges: list[MissedRange]
    late_rows: list[ActiveRun]
    late_reason: str | None
    skipped: int
    missed: int


def judge_past(
    state: SchedulerState,
    now: Instant,
    job: Job,
    rows: Sequence[ActiveRun],
    listed: Sequence[tuple[Job, Instant]],
    unlisted: Sequence[Unlisted],
) -> FrozenPast | None:
    """Judge the job's late rows together with its missed occurrences; None if no freeze judges any of them."""
    due = [at + jitter_of(one.job_id, at, one.jitter) for one, at in listed]
    first = min((*due, *(run.due_at for run in rows), *(one.start for one in unlisted)), default=now)
    freezes = freezes_of(state, job.queue, job.job_id, first)
    if not freezes:
        return None
    reasons: list[str | None] = [_skipped(state, freezes, at) for at in due]
    held = [
        (n, text) for n, at in enumerate(due) if reasons[n] is None and (text := _held(freezes, at, job.misfire, now))
    ]
    for n, text in held[: -job.misfire.max_catch_up]:
        reasons[n] = text
    left = [n for n, reason in enumerate(reasons) if reason is None]
    bulks = [
        (one, _skipped(state, freezes, one.start) or _held(freezes, one.start, job.misfire, now)) for one in unlisted
    ]
    rest = sum(one.count for one, reason in bulks if reason is None)
    ages = [late_from(freezes, run.due_at) for run in rows] + [late_from(freezes, due[n]) for n in left]
    judgement = judge_lateness(job.misfire, ages, len(ages) + rest, now)
    kept = set(judgement.keep)
    for place, n in enumerate(left, start=len(rows)):
        if place not in kept:
            reasons[n] = judgement.reason
    parts = [
        MissedRange(job.job_id, at, at + MICROSECOND, 1, reason)
        for (_, at), reason in zip(listed, reasons, strict=True)
        if reason is not None
    ]
    parts += [MissedRange(job.job_id, one.start, one.end, one.count, r or judgement.reason or "") for one, r in bulks]
    by_lateness = sum(part.count for part in parts if part.reason == judgement.reason)
    return FrozenPast(
        [pair for pair, reason in zip(listed, reasons, strict=True) if reason is None],
        _joined(parts),
        [run for place, run in enumerate(rows) if place not in kept],
        judgement.reason,
        sum(part.count for part in parts) - by_lateness,
        by_lateness,
    )


def _skipped(state: SchedulerState, freezes: Sequence[Freeze], at: Instant) -> str | None:
    freeze = skipping_freeze(state, freezes, at)
    return None if freeze is None else freeze.skipped()


def _held(freezes: Sequence[Freeze], at: Instant, misfire: Misfire, now: Instant) -> str | None:
    """Why one of too many occurrences goes that a freeze held, and that are not late after it."""
    held_by = next(iter(holding(freezes, at)), None)
    if held_by is None or now - late_from(freezes, at) > misfire.grace:
        return None
    return held_by.held_too_many(misfire.max_catch_up)


def _joined(parts: Iterable[MissedRange]) -> list[MissedRange]:
    """Join neighbours of one reason; a kept occurrence between them has a row."""
    joined: list[MissedRange] = []
    for part in sorted(parts, key=lambda part: part.start):
        if joined and joined[-1].reason == part.reason:
            joined[-1] = replace(joined[-1], end=part.end, count=joined[-1].count + part.count)
        else:
            joined.append(part)
    return joined
