"""The zone rules of the installation as JSON, and the jobs that other rules would move. Changes nothing."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import DAY, MINUTE, SECOND, Instant, format_instant
from scheduler_service.api.context import ApiContext
from scheduler_service.core.index.zone_changes import Difference, Eras, differences
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.closed import own_schedule
from scheduler_service.core.schedules.kinds import OwnSchedule
from scheduler_service.core.schedules.schedule import zone_of
from scheduler_service.core.schedules.zone_eras import ALWAYS, Era, eras_in_force
from scheduler_service.core.schedules.zone_rules import difference, installed_rules
from scheduler_service.core.schedules.zone_sets import ZoneSet, installed_set, unpacked
from scheduler_service.ports.stores import JobFilter

_PAGE: Final = 1_000
_FIELDS: Final = frozenset({"from", "to", "days", "limit"})
_NAMES: Final = "in_force, before, installed, or an object with version and files"
# A comparison of many jobs takes seconds of processor time.
_ONE_AT_A_TIME: Final = threading.Lock()


def zone_rules_body(context: ApiContext) -> dict[str, Any]:
    """Show the rules in force, those adopted before, and those of the hosts."""
    own, adopted = installed_rules(), context.stores.zone_rules.adopted()
    lease = context.stores.leases.peek(0)
    leads = lease if lease is not None and lease.live else None
    in_force = adopted[-1].version if adopted else own.version
    return {
        "version": in_force,
        "digest": adopted[-1].digest if adopted else installed_set().digest,
        "adopted": [
            {
                "version": one.version, "digest": one.digest, "source": one.source, "holder": one.holder,
                "adopted_at": format_instant(one.adopted_at), "effective_from": format_instant(one.effective_from),
            }
            for one in reversed(adopted)
        ],
        "installed": own.version,
        "installed_digest": installed_set().digest,
        "installed_source": own.text,
        "difference": difference(in_force),
        "leader": leads.zone_rules if leads else None,
        "standby": leads.standby_zone_rules if leads else None,
    }  # fmt: skip


class _Asked(NamedTuple):
    left: Eras
    right: Eras
    start: Instant
    end: Instant
    limit: int


def diff_body(context: ApiContext, body: Mapping[str, Any]) -> dict[str, Any]:
    """List the jobs whose coming times differ by the two sets of rules that the body names."""
    asked = _read(body, context.clock())
    with _ONE_AT_A_TIME:
        jobs = list(_jobs(context))
        result = differences(
            {own_schedule(job.schedule) for job in jobs}, asked.left, asked.right, asked.start, asked.end
        )
        changed = [(job, moved) for job in jobs if (moved := _moved(job, result.found, asked)) is not None]
    rules = asked.left[-1].rules, asked.right[-1].rules
    return {
        "from": rules[0].version,
        "to": rules[1].version,
        "same": rules[0].digest == rules[1].digest,
        "start": format_instant(asked.start),
        "end": format_instant(asked.end),
        "zones": [{"timezone": zone, "first_at": format_instant(at)} for zone, at in result.zones.items()],
        "jobs": [_changed_body(*pair) for pair in changed[: asked.limit]],
        "changed": len(changed),
        "compared": len(jobs),
        "unchecked": sum(1 for job in jobs if own_schedule(job.schedule) in result.unchecked),
    }


def _read(body: Mapping[str, Any], now: Instant) -> _Asked:
    known = f"known are {', '.join(sorted(_FIELDS))}"
    errors = [BadValue(name, body[name], known) for name in sorted(set(body) - _FIELDS)]
    start = now + -now % MINUTE
    found: dict[str, Any] = {}
    for name, read in (
        ("from", lambda value: _side("from", "in_force" if value is None else value, start)),
        ("to", lambda value: _side("to", "installed" if value is None else value, start)),
        ("days", lambda value: _number("days", 730 if value is None else value, 3660)),
        ("limit", lambda value: _number("limit", 1000 if value is None else value, 10_000)),
    ):
        try:
            found[name] = read(body.get(name))
        except BadValue as exc:
            errors.append(exc)
    if errors:
        raise BadValues(errors)
    return _Asked(found["from"], found["to"], start, start + found["days"] * DAY, found["limit"])


def _number(name: str, value: Any, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise BadValue(name, value, f"give a whole number from 1 to {most}")
    return value


def _side(name: str, value: Any, start: Instant) -> Eras:
    """Read one set of rules: what decides when, were they adopted now."""
    eras = eras_in_force() or (Era(ALWAYS, installed_set()),)
    match value:
        case "in_force":
            return eras
        case "before":
            if len(eras) < 2:
                raise BadValue(name, value, "no others were adopted before those in force")
            return eras[:-1]
        case "installed":
            return _adopted_at(eras, installed_set(), start)
        case {"version": str(version), "files": str(files), **rest} if not rest:
            try:
                return _adopted_at(eras, unpacked(version, files), start)
            except BadValue as exc:
                raise exc.under(name) from None
        case _:
            raise BadValue(name, value, f"give {_NAMES}")


def _adopted_at(eras: Eras, rules: ZoneSet, start: Instant) -> Eras:
    return (*eras, Era(max(start // SECOND, eras[-1].since), rules))


def _jobs(context: ApiContext) -> Iterator[Job]:
    cursor = None
    while True:
        page = context.stores.jobs.list(JobFilter(), _PAGE, cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def _moved(job: Job, found: Mapping[OwnSchedule, Difference], asked: _Asked) -> Difference | None:
    """The job's first difference between its start and its end."""
    schedule = own_schedule(job.schedule)
    moved = found.get(schedule)
    if moved is not None and job.start_at is not None and moved.at < job.start_at:
        start = max(asked.start, job.start_at)
        moved = differences([schedule], asked.left, asked.right, start, asked.end).found.get(schedule)
    if moved is None or (job.end_at is not None and moved.at >= job.end_at):
        return None
    return moved


def _changed_body(job: Job, moved: Difference) -> dict[str, Any]:
    before, after = (None if at is None else format_instant(at) for at in moved)
    return {"job_id": job.job_id, "timezone": zone_of(job.schedule), "before": before, "after": after}
