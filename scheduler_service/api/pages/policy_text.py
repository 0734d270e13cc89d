"""A job's policies in sentences, and the differences between its versions. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never
from urllib.parse import urlsplit

from itinerary.protocol.attempt_logs import KeepLogs
from itinerary.protocol.instants import Instant, format_instant
from itinerary.protocol.limits import JobLimit, KeyFrom
from itinerary.protocol.redaction import hidden, is_hidden, redacted
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.api.pages.moments import Moment, length, moment, pretty
from scheduler_service.core.contract.job_json import definition_of, job_body, optional_instant
from scheduler_service.core.explain.facts import Version
from scheduler_service.core.model import Job, Misfire, MisfirePolicy, Overlap


@dataclass(frozen=True, slots=True)
class Change:
    """One field that a version changed, as JSON."""

    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class VersionLine:
    """One version: its start, its author, and its changes."""

    version: int
    since: Moment
    actor: str | None
    changes: list[Change]
    first: bool
    deleted: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions field by field; None for one that is not in the list."""

    before: int
    after: int
    changes: list[Change] | None


_OVERLAPS: Final = {
    Overlap.SKIP: "A run that falls due while the previous one is not over is skipped.",
    Overlap.ALLOW: "Runs may overlap.",
    Overlap.QUEUE: "A run that falls due while the previous one is not over waits for it, but only one.",
    Overlap.QUEUE_ALL: "Runs are executed one after the other; all that fall due meanwhile wait.",
    Overlap.CANCEL_RUNNING: "A run that falls due cancels the previous one, and takes its place.",
}
_LOGS: Final = {
    KeepLogs.FAILURES: "The log of an attempt that fails is kept.",
    KeepLogs.ALL: "The logs of all attempts are kept.",
    KeepLogs.NONE: "No log is kept.",
}


def policies(job: Job) -> Iterator[tuple[str, str]]:
    """Return name and sentence of each policy of a job."""
    yield "Late", _late(job.misfire)
    yield "Overlap", _OVERLAPS[job.overlap]
    yield "Failed", _retries(job.retry)
    yield "Timeout", f"A run is stopped after {length(job.timeout)}." if job.timeout else "A run may take any time."
    if job.start_within is not None:
        yield "Start", f"A run that is not started {length(job.start_within)} after its time is recorded as missed."
    if job.must_end_within is not None:
        yield "SLA", f"A run that is not over {length(job.must_end_within)} after its time has missed its SLA."
    if job.ping is not None:
        host = urlsplit(job.ping.url).hostname
        yield "Ping", f"{host} hears of its {', '.join(job.ping.on)} ({job.ping.style})."
    if job.limits:
        yield "Limits", f"Its runs count for {' and '.join(map(_limit, job.limits))}."
    if job.fair_key is not None:
        yield "Fair key", f"In a fair queue, its runs take turns as those of {_key(job.fair_key)}."
    if job.jitter:
        yield "Jitter", f"Each run is dispatched up to {length(job.jitter)} after its time (jitter)."
    yield "Logs", _LOGS[job.keep_logs]
    if job.start_at is not None or job.end_at is not None:
        start = "" if job.start_at is None else f" from {format_instant(job.start_at)}"
        end = "" if job.end_at is None else f" until {format_instant(job.end_at)}"
        yield "Bounds", f"It runs{start}{end} only."


def _limit(limit: JobLimit) -> str:
    return limit.name if limit.key is None else f"{limit.name} of {_key(limit.key)}"


def _key(key: str | KeyFrom) -> str:
    return f"their argument {key.path}" if isinstance(key, KeyFrom) else key


def _late(misfire: Misfire) -> str:
    grace = length(misfire.grace)
    match misfire.policy:
        case MisfirePolicy.FIRE_ONCE:
            return f"Of runs more than {grace} late only the newest is dispatched; the others are recorded as missed."
        case MisfirePolicy.FIRE_ALL:
            most = misfire.max_catch_up
            return f"Runs that are more than {grace} late are dispatched one after the other, at most {most} of them."
        case MisfirePolicy.SKIP:
            return f"A run that is more than {grace} late is not dispatched; it is recorded as missed."
        case _:
            assert_never(misfire.policy)


def _retries(retry: RetryPolicy) -> str:
    if retry.max_attempts == 1:
        return "A run that fails is not retried."
    jitter = ", varied at random" if retry.jitter else ""
    return (
        f"A run that fails is tried up to {retry.max_attempts} times in all, after {length(retry.initial)} at first, "
        f"{retry.factor:g} times that each time, at most {length(retry.max)}{jitter}."
    )


def version_lines(newest_first: Sequence[Version], now: Instant) -> list[VersionLine]:
    """List each version with its changes against the previous one, if that is in the list."""
    olders: list[Version | None] = [*newest_first[1:], None]
    return [_line(version, older, now) for version, older in zip(newest_first, olders, strict=True)]


def compared(versions: Sequence[Version], before: int, after: int) -> Comparison:
    """Return what differs between two of these versions."""
    known = {version.job.version: version.job for version in versions}
    if before not in known or after not in known:
        return Comparison(before, after, None)
    return Comparison(before, after, list(changes(_facts(known[before]), _facts(known[after]))))


def _line(version: Version, older: Version | None, now: Instant) -> VersionLine:
    job = version.job
    changed = [] if older is None else list(changes(_facts(older.job), _facts(job)))
    return VersionLine(
        job.version, moment(job.effective_from, now), version.actor, changed, job.version == 1, job.deleted
    )


def _facts(job: Job) -> dict[str, Any]:
    pause = {"paused": job.paused, "pause_reason": job.pause_reason, "paused_until": optional_instant(job.paused_until)}
    return {**definition_of(job), **pause, "pause_waiting": job_body(job)["pause_waiting"]}


def changes(before: Any, after: Any, field: str = "") -> Iterator[Change]:
    """Return the innermost fields that differ, each named by its path."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            deeper, old, new = f"{field}.{name}" if field else name, before.get(name), after.get(name)
            if is_hidden(name) and old != new:
                yield Change(deeper, pretty(hidden(old)), pretty(hidden(new)))
            else:
                yield from changes(old, new, deeper)
    elif before != after:
        yield Change(field, pretty(redacted(before)), pretty(redacted(after)))
