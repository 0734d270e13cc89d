"""Jobs as what other schedulers read: the formats' common part. Pure.

Promises: a job is written exactly, or with each difference where the caller takes the nearest, or refused by name.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.instants import Instant, format_instant
from itinerary.protocol.redaction import MASK
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.model import Job, MisfirePolicy, Overlap
from scheduler_service.migrating.cron_lines import CannotSay

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_OURS: Final = {'"$type"': "typed values", '"$secret"': "secrets", '"$env"': "environment", MASK: "hidden values"}


@dataclass(frozen=True, slots=True)
class Exported:
    """One job in another's words, what differs, and for the formats that group: a key to group by."""

    job: Job
    said: Any
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """A job that is not written, and why."""

    job_id: str
    why: str


def jobs_of(bodies: Sequence[Mapping[str, Any]], now: Instant) -> list[Job]:
    """Stored jobs, as the API shows them."""
    return [read_job(body, created_at=now, paused=bool(body.get("paused")))[0] for body in bodies]


def export_each(
    jobs: Sequence[Job], say: Callable[[Job], Exported], *, nearest: bool
) -> tuple[list[Exported], list[Refused]]:
    """Every job in the words of `say`, or refused; with `nearest` a difference is no reason to refuse."""
    done: list[Exported] = []
    refused = []
    for job in jobs:
        try:
            found = say(job)
        except CannotSay as exc:
            refused.append(Refused(job.job_id, str(exc)))
            continue
        if found.differences and not nearest:
            refused.append(Refused(job.job_id, "; ".join(found.differences)))
        else:
            done.append(found)
    return done, refused


def check_arguments(job: Job) -> None:
    """CannotSay where the arguments hold what only this service understands."""
    text = json.dumps([list(job.args), dict(job.kwargs)])
    for mark, what in _OURS.items():
        if mark in text:
            raise CannotSay(f"its arguments hold {what}, which only Itinerary fills in")


def environment_of(job: Job) -> dict[str, str]:
    """The environment of the job's command; CannotSay where `env` holds another thing than names with texts."""
    held = job.kwargs.get("env") or {}
    if not isinstance(held, Mapping):
        raise CannotSay("its `env` is no object of names and texts")
    if odd := [name for name, value in held.items() if not (_NAME.fullmatch(name) and isinstance(value, str))]:
        raise CannotSay(f"its `env` has {odd[0]!r}, which is no name with a text")
    return dict(held)


def policy_differences(job: Job, now: Instant, *, keeps_one: bool = True, jitters: bool = False) -> list[str]:
    """The policies that the other scheduler lacks; `keeps_one`: it makes up for one missed time."""
    found = []
    if job.retry.max_attempts > 1:
        found.append(f"retry: {job.retry.max_attempts} attempts, of which there is one there")
    if job.jitter and not jitters:
        found.append("jitter: runs start at the time itself there")
    if job.misfire.policy is MisfirePolicy.FIRE_ALL:
        found.append("misfire fire_all: what was missed is not made up for there, or once")
    if job.misfire.policy is MisfirePolicy.SKIP and keeps_one:
        found.append("misfire skip: after an outage the newest missed time is made up for there")
    if job.start_at is not None and job.start_at > now:
        found.append(f"start_at {format_instant(job.start_at)}: it runs from the start there")
    if job.end_at is not None:
        found.append(f"end_at {format_instant(job.end_at)}: it has no end there")
    if job.limits:
        found.append(f"limits {', '.join(limit.name for limit in job.limits)}: nothing there holds its runs back")
    if job.calendars is not None:
        found.append(f"calendars {', '.join(job.calendars.ids)}: it runs on their days too there")
    if job.fair_key is not None:
        found.append("fair_key: its runs wait in one line with all others there")
    return found


def overlap_differences(job: Job) -> list[str]:
    """A job that is not to overlap, where each time starts its own."""
    if job.overlap is Overlap.ALLOW:
        return []
    return [f"overlap {job.overlap.value}: each time is started there, whether or not the last one is over"]
