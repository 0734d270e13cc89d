"""Specs, as JSON holds them: parsing them into schedules, and filling in every default.

Every error is a BadValue whose field begins with `schedule`; unknown keys are refused by name. Odd but possible specs
(an OR of day fields, an hour that the clocks skip) are accepted with a warning for the writer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, Literal, TypeVar, assert_never, get_args

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.core.memo import shared
from scheduler_service.core.schedules import calendar_specs, interval_specs, rule_specs, solar_specs, union_specs
from scheduler_service.core.schedules.clock_rules import ClockRule
from scheduler_service.core.schedules.closed import ClosedSchedule
from scheduler_service.core.schedules.cron import CronLine, has_hash, read_line, resolve_hash, rewritten
from scheduler_service.core.schedules.dialects import DIALECTS, Dialect
from scheduler_service.core.schedules.kinds import (
    CronSchedule,
    HourlySchedule,
    OnceSchedule,
    Schedule,
    SimpleSchedule,
    UnionSchedule,
    shared_union,
)
from scheduler_service.core.schedules.spec_reading import choice, moment, month_start, only_known, whole, zone_name
from scheduler_service.core.schedules.wall_times import Clockwork, WallTimes
from scheduler_service.core.schedules.warnings import clock_warnings, rule_warnings
from scheduler_service.core.schedules.zone_eras import cached_by_rules, number_in_force

Kind = Literal["cron", "hourly", "interval", "calendar", "once", "solar", "rrule", "any"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
SPEC_FIELDS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "cron": ("expr", "dialect", "timezone", "day_match", "dst_gap", "dst_fold"),
    "hourly": ("minute", "timezone"),
    "interval": interval_specs.KEYS,
    "calendar": calendar_specs.KEYS,
    "once": ("at", "timezone"),
    "solar": solar_specs.KEYS,
    "rrule": rule_specs.KEYS,
    "any": union_specs.KEYS,
}
"""The keys that a spec of each kind may hold beside `kind`."""
_DAY_MATCH: Final = ("or", "and")
_GAPS: Final = ("next_valid", "shift", "skip")
_FOLDS: Final = ("first", "last", "both")
_NO_EFFECT: Final = (
    "dst_gap and dst_fold have no effect: the minute or the hour begins with *, so the job follows elapsed time"
)
_Read = TypeVar("_Read")
_EVERY_HOUR: Final = (1 << 24) - 1


@dataclass(frozen=True, slots=True)
class ParsedSchedule:
    """A schedule, its spec as `canonical_spec` returns it, and the warnings for its writer."""

    schedule: Schedule
    spec: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


def parse_schedule(spec: Mapping[str, Any], *, job_id: str, created_at: Instant) -> ParsedSchedule:
    """Parse a spec; BadValue names the field (`schedule.expr`) and the allowed values.

    `job_id` resolves `H` (without one, `H` is refused). `created_at` is when the job was created: intervals without an
    anchor count from 00:00 of that day in the job's zone, calendars from that date.
    """
    try:
        return _parse(spec, job_id, created_at)
    except BadValue as refused:
        raise refused.under("schedule") from None


def canonical_spec(spec: Mapping[str, Any], *, job_id: str = "") -> Mapping[str, Any]:
    """Fill in every default, for storing and showing; canonical specs are unchanged.

    With a `job_id`, an `H` in a cron line is replaced by its value.
    """
    try:
        return _canonical(spec, job_id if depends_on_id(spec) else "")
    except BadValue as refused:
        raise refused.under("schedule") from None


def depends_on_id(spec: object) -> bool:
    """Return whether a spec holds an `H`, whose value goes by the job's id."""
    if not isinstance(spec, Mapping):
        return False
    members = spec.get("of") if spec.get("kind") == "any" else None
    return has_hash(str(spec.get("expr"))) or (isinstance(members, (list, tuple)) and any(map(depends_on_id, members)))


def depends_on_creation(spec: Mapping[str, Any]) -> bool:
    """Return whether a canonical spec names no time to count from, so that it counts from the job's creation."""
    match spec["kind"]:
        case "interval":
            return not spec["balanced"] and spec["anchor"] is None and "window" not in spec
        case "calendar":
            return spec["start"] is None
        case "any":
            return any(map(depends_on_creation, spec["of"]))
        case _:
            return False


def _kind(spec: object) -> Kind:
    if not isinstance(spec, Mapping):
        raise BadValue("", spec, "an object with the field kind")
    kind = spec.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise BadValue("kind", kind, f"one of {', '.join(KINDS)}")
    return kind


def _parse(spec: Mapping[str, Any], job_id: str, created_at: Instant) -> ParsedSchedule:
    kind = _kind(spec)
    canonical = _canonical(spec, "")
    match kind:
        case "cron":
            return _cron(canonical, job_id, created_at)
        case "hourly":
            return ParsedSchedule(_hourly(canonical["minute"], canonical["timezone"]), canonical)
        case "interval":
            schedule = interval_specs.parse(canonical, created_at)
            return ParsedSchedule(schedule, canonical, interval_specs.warnings(schedule, month_start(created_at)))
        case "calendar":
            calendar = calendar_specs.parse(canonical, created_at)
            return ParsedSchedule(calendar, canonical, clock_warnings(calendar.wall, month_start(created_at)))
        case "once":
            return ParsedSchedule(OnceSchedule(moment(canonical["at"], "at", None)), canonical)
        case "solar":
            solar, notes = solar_specs.parse(*(canonical[key] for key in solar_specs.KEYS))
            return ParsedSchedule(solar, canonical, notes)
        case "rrule":
            rule, notes = rule_specs.parse(canonical)
            return ParsedSchedule(rule, canonical, notes + rule_warnings(rule, month_start(created_at)))
        case "any":
            return _union(canonical, job_id, created_at)
        case _:
            assert_never(kind)


@partial(shared, depends_on=number_in_force)
def _canonical(spec: Mapping[str, Any], job_id: str) -> Mapping[str, Any]:
    kind = _kind(spec)
    match kind:
        case "cron":
            return _canonical_cron(spec, job_id)
        case "hourly":
            only_known(spec, SPEC_FIELDS[kind])
            return {"kind": kind, "minute": whole(spec, "minute", 0, 59), "timezone": zone_name(spec)}
        case "interval":
            return interval_specs.canonical(spec)
        case "calendar":
            return calendar_specs.canonical(spec)
        case "once":
            only_known(spec, SPEC_FIELDS[kind])
            timezone = zone_name(spec) if spec.get("timezone") is not None else None
            return {"kind": kind, "at": format_instant(moment(spec.get("at"), "at", timezone))}
        case "solar":
            return solar_specs.canonical(spec)
        case "rrule":
            return rule_specs.canonical(spec)
        case "any":
            return {"kind": kind, "of": [dict(member) for member in _members(spec, job_id, _canonical)]}
        case _:
            assert_never(kind)


def _members(spec: Mapping[str, Any], job_id: str, read: Callable[[Mapping[str, Any], str], _Read]) -> list[_Read]:
    """Read each member with the id that stands for the job's; an error names the member."""
    found = []
    for number, member in enumerate(union_specs.members(spec)):
        try:
            found.append(read(member, union_specs.member_id(job_id, number)))
        except BadValue as refused:
            raise refused.under(f"of.{number}") from None
    return found


def _union(spec: Mapping[str, Any], job_id: str, created_at: Instant) -> ParsedSchedule:
    members = _members(spec, job_id, lambda member, as_id: _parse(member, as_id, created_at))
    schedule = UnionSchedule(tuple(_simple(member.schedule) for member in members))
    notes = (f"of.{number}: {note}" for number, member in enumerate(members) for note in member.warnings)
    resolved = {"kind": "any", "of": [dict(member.spec) for member in members]} if depends_on_id(spec) else spec
    return ParsedSchedule(shared_union(schedule), resolved, tuple(notes))


def _simple(schedule: Schedule) -> SimpleSchedule:
    assert not isinstance(schedule, UnionSchedule | ClosedSchedule)
    return schedule


def _canonical_cron(spec: Mapping[str, Any], job_id: str) -> dict[str, Any]:
    only_known(spec, SPEC_FIELDS["cron"])
    expr = spec.get("expr")
    dialect = _dialect(spec)
    day_match = choice(spec, "day_match", ("and", "or") if dialect == "spring" else _DAY_MATCH)
    # Resolve an `H` with any id: only its syntax matters here.
    line = read_line(expr, day_match, job_id or "any", dialect)  # type: ignore[arg-type]
    if dialect == "spring" and line.pattern.days.either:
        raise BadValue("day_match", day_match, "and: Spring runs on days that match both fields")
    folds = ("both", "first", "last") if line.has_seconds else _FOLDS
    assert isinstance(expr, str)
    text = " ".join(expr.split())
    return {
        "kind": "cron",
        "expr": resolve_hash(text, job_id) if job_id and has_hash(text) else text,
        # Absent where it is not given: the release before refuses a definition with a field that it does not know.
        **({} if dialect is None else {"dialect": dialect}),
        "timezone": zone_name(spec),
        "day_match": day_match,
        "dst_gap": choice(spec, "dst_gap", _GAPS),
        "dst_fold": choice(spec, "dst_fold", folds),
    }


def _dialect(spec: Mapping[str, Any]) -> Dialect | None:
    given = spec.get("dialect")
    if given is None:
        return None
    for dialect in DIALECTS:
        if given == dialect:
            return dialect
    raise BadValue("dialect", given, f"one of {', '.join(DIALECTS)}; omit it for a line of this service's own dialect")


def in_own_dialect(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a canonical cron spec with its line in this service's dialect, for those who read the line themselves."""
    if "dialect" not in spec:
        return spec
    own = {key: value for key, value in spec.items() if key != "dialect"}
    return {**own, "expr": rewritten(spec["expr"], spec["dialect"])}


def _cron(spec: Mapping[str, Any], job_id: str, created_at: Instant) -> ParsedSchedule:
    expr = spec["expr"]
    own = job_id if has_hash(expr) else ""
    rest = (spec["timezone"], spec["day_match"], spec["dst_gap"], spec["dst_fold"], month_start(created_at))
    schedule, notes = _cron_kept(expr, own, *rest, spec.get("dialect"))
    return ParsedSchedule(schedule, _canonical(spec, own) if own else spec, notes)


@cached_by_rules(maxsize=65_536)
def _cron_kept(
    expr: str, job_id: str, zone: str, day_match: Any, gap: Any, fold: Any, since: int, dialect: Dialect | None
) -> tuple[CronSchedule, tuple[str, ...]]:
    line: CronLine = read_line(expr, day_match, job_id, dialect)
    pattern = line.pattern
    rule = ClockRule(True) if pattern.wildcard else ClockRule(False, gap, fold)
    block = Clockwork(pattern.hours, pattern.minutes, pattern.seconds)
    wall = WallTimes(zone, rule, pattern.days, (block,))
    notes = line.notes + clock_warnings(wall, since)
    if pattern.wildcard and (gap != "next_valid" or fold != ("both" if line.has_seconds else "first")):
        notes += (_NO_EFFECT,)
    return CronSchedule(expr if dialect is None else rewritten(expr, dialect), wall), notes


@lru_cache(maxsize=4_096)
def _hourly(minute: int, zone: str) -> HourlySchedule:
    pattern = read_line(f"{minute} * * * *", "or", "").pattern
    block = Clockwork(_EVERY_HOUR, 1 << minute, 1)
    return HourlySchedule(minute, WallTimes(zone, ClockRule(True), pattern.days, (block,)))
