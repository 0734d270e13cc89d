"""Explains the pauses of a job by its versions: who paused it, since when and why, and what that held back. Pure."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.core.explain.explanation import Because, version_row
from scheduler_service.core.explain.facts import Version


def version_at(versions: Sequence[Version], at: Instant) -> Version | None:
    """Return the version that is valid at an instant."""
    return next((v for v in reversed(versions) if v.job.effective_from <= at), None)


def in_pause(version: Version, at: Instant) -> bool:
    """Whether a pause of this version prevents an occurrence at `at` from running."""
    until = version.job.paused_until
    return version.job.paused and (until is None or at < until)


def pause_text(versions: Sequence[Version], holding: Version) -> Because:
    """Describe a pause: its author, start, reason and length."""
    began = holding
    for version in reversed(versions[: versions.index(holding)]):
        if not version.job.paused:
            break
        began = version
    job = began.job
    message = f"Job {job.job_id} was paused at {format_instant(job.effective_from)} by {somebody(began.actor)}"
    if holding.job.paused_until is not None:
        message += f" until {format_instant(holding.job.paused_until)}"
    if job.pause_reason:
        message += f': "{job.pause_reason}"'
    return Because(f"{message}.", version_row(began))


def somebody(actor: str | None) -> str:
    """Name the author of a change, if known."""
    return actor if actor is not None else "somebody whose name is not recorded"


def pauses_between(versions: Sequence[Version], since: Instant, until: Instant) -> Iterator[Because]:
    """Describe the pauses that ended while it waited; one that skips waiting runs delayed nothing."""
    for paused, after in zip_longest(versions, versions[1:]):
        job = paused.job
        if not job.paused or job.pause_skips or (after is not None and after.job.paused):
            continue
        resumed_at = None if after is None else after.job.effective_from
        ended_at = min((at for at in (job.paused_until, resumed_at) if at is not None), default=None)
        if ended_at is not None and since < ended_at <= until:
            by = f", when {somebody(after.actor)} resumed it" if after is not None and ended_at == resumed_at else ""
            yield pause_text(versions, paused)
            yield Because(f"It was held back until {format_instant(ended_at)}{by}.")
