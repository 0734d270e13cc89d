"""Another scheduler's times beside ours over a span: where they differ, and what the clocks have to do with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.instants import DAY, HOUR, SECOND, Instant, format_instant
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.schedules.schedule import IntervalSchedule, Schedule, SolarSchedule, occurrences, zone_of
from scheduler_service.core.schedules.zones import Transition, changes_between, offset_at, passes_of
from scheduler_service.migrating.beat_fires import beat_fires
from scheduler_service.migrating.converted import Converted

_AHEAD: Final = 400 * DAY
_AROUND: Final = 26 * HOUR
_NEAR: Final = 3 * HOUR
_DENSE: Final = 200
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Difference:
    """One instant at which only one of the two would start the task, and why."""

    at: Instant
    only: str
    why: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both counts, the differences, and for rhythms with another phase a note instead of every instant."""

    theirs: int
    itinerary: int
    differences: tuple[Difference, ...]
    note: str | None = None


def compare(
    given: Any,
    app: Any,
    ours: Schedule,
    start: Instant,
    end: Instant,
    *,
    start_at: Instant | None = None,
    end_at: Instant | None = None,
) -> Comparison:
    """Beat and we over (start, end), as if beat began at `start`; `start_at` and `end_at` are bounds of ours."""
    return compare_times("beat", beat_fires(given, app, start, end), ours, start, end, start_at=start_at, end_at=end_at)


def compare_times(
    who: str,
    theirs: Sequence[Instant],
    ours: Schedule,
    start: Instant,
    end: Instant,
    *,
    start_at: Instant | None = None,
    end_at: Instant | None = None,
) -> Comparison:
    """The times of the scheduler `who` and ours over (start, end)."""
    mine = occurrences(ours, max(start + 1, start_at or 0), min(end, end if end_at is None else end_at))
    if isinstance(ours, SolarSchedule):
        theirs = _to_the_second(theirs, mine)
    note = _phase(ours, theirs, mine)
    if note is not None:
        return Comparison(len(theirs), len(mine), (), note)
    found = [Difference(at, who, _why(ours, at)) for at in sorted({*theirs} - {*mine})]
    found += [Difference(at, "itinerary", _why(ours, at)) for at in sorted({*mine} - {*theirs})]
    return Comparison(len(theirs), len(mine), tuple(sorted(found, key=lambda each: each.at)))


def compare_converted(who: str, converted: Converted, start: Instant, end: Instant) -> Comparison | None:
    """The times of the scheduler `who` for one entry, and ours; None for what is refused or left out."""
    if converted.body is None or converted.left_out is not None or converted.fires is None:
        return None
    job, _ = read_job(converted.body, created_at=start)
    theirs = converted.fires(start, end)
    return compare_times(who, theirs, job.schedule, start, end, start_at=job.start_at, end_at=job.end_at)


def clock_differences(given: Any, app: Any, ours: Schedule, now: Instant) -> list[str]:
    """A sentence for each change of the clocks in the next 400 days that the two treat differently."""
    zone, lines = zone_of(ours), []
    for change in changes_between(zone, now // SECOND, (now + _AHEAD) // SECOND):
        around = _NEAR if _is_dense(given) else _AROUND
        at = change.at * SECOND
        found = compare(given, app, ours, at - around, at + around).differences
        if found:
            lines.append(
                f"on {_local(zone, at)[:10]}, when the clocks of {zone} {_jump(change)}: {_sides(zone, found)}"
            )
    return lines


def _is_dense(given: Any) -> bool:
    return len(getattr(given, "minute", ())) * len(getattr(given, "hour", ())) > _DENSE


def _phase(ours: Schedule, theirs: Sequence[Instant], mine: Sequence[Instant]) -> str | None:
    if not isinstance(ours, IntervalSchedule) or not theirs or not mine or {*theirs} == {*mine}:
        return None
    first = f"first {format_instant(theirs[0])} there, {format_instant(mine[0])} here"
    return f"the same rhythm, counted from another moment: {first}"


def _to_the_second(theirs: Sequence[Instant], mine: Sequence[Instant]) -> list[Instant]:
    """Beat's solar times, each as ours where it is less than a second away: beat sends within the second."""
    near = {at // SECOND + step: at for at in mine for step in (-1, 0)}
    return [near.get(at // SECOND, at) for at in theirs]


def _why(ours: Schedule, at: Instant) -> str:
    if isinstance(ours, SolarSchedule):
        return "a day at the edge of a season without the event: beat searches from its last sending"
    zone = zone_of(ours)
    which, passes = passes_of(zone, at // SECOND)
    if passes > 1:
        return f"the clocks of {zone} show {_local(zone, at)[11:16]} twice: this is time {which}"
    for change in changes_between(zone, (at - DAY) // SECOND, (at + DAY) // SECOND):
        return f"the clocks of {zone} {_jump(change)} on {_local(zone, change.at * SECOND)[:10]}"
    return "no change of the clocks explains this: please report it"


def _jump(change: Transition) -> str:
    low, high = change.at + change.before, change.at + change.after
    verb = "jump" if change.after > change.before else "go back"
    return f"{verb} from {_clock(low)} to {_clock(high)}"


def _clock(local: int) -> str:
    return format_instant(local * SECOND)[11:16]


def _local(zone: str, at: Instant) -> str:
    return format_instant(at + offset_at(zone, at // SECOND) * SECOND).removesuffix("Z")


def _sides(zone: str, found: Sequence[Difference]) -> str:
    lines = []
    for only, text in (("beat", "only beat sends"), ("itinerary", "only here it runs")):
        times = [each.at for each in found if each.only == only]
        if times:
            shown = ", ".join(_clock_and_offset(zone, at) for at in times[:_SHOWN])
            lines.append(f"{text} at {shown}{', ...' if len(times) > _SHOWN else ''} ({len(times)}x)")
    return "; ".join(lines)


def _clock_and_offset(zone: str, at: Instant) -> str:
    hours, rest = divmod(abs(offset_at(zone, at // SECOND)), 3600)
    sign = "-" if offset_at(zone, at // SECOND) < 0 else "+"
    return f"{_local(zone, at)[11:16]}{sign}{hours:02d}:{rest // 60:02d}"
