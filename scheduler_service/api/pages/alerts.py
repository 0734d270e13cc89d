"""Alerts by cause: each once, with a link to exactly its runs and one thing to do. Only shows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote, urlencode

from itinerary.protocol.instants import DAY, HOUR, SECOND, Instant, format_instant, parse_instant
from scheduler_service.api.context import ApiContext
from scheduler_service.api.pages.failure_groups import Group, grouped
from scheduler_service.api.pages.live import TROUBLES, Issue, Live, issues
from scheduler_service.api.pages.outages import Outage, outages
from scheduler_service.api.services.who_leads import absences
from scheduler_service.core.balancing.balancer import needs_place
from scheduler_service.core.model import Job
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.history import Trouble
from scheduler_service.ports.samples import Term
from scheduler_service.ports.stores import RunFilter

_KINDS: Final = 3
_OUTAGES: Final = 3
_IDLE: Final = 50
_IN_QUEUE: Final = 20
_TERMS: Final = 50
_NAMED: Final = 3
_WAITING: Final = (RunState.PENDING, RunState.RETRYING, RunState.SCHEDULED)


def alerts(
    context: ApiContext, live: Live, jobs: Sequence[Job], planned: Mapping[str, Instant | None], now: Instant
) -> Iterator[Issue]:
    """List what is wrong, the gravest first; `planned` has the next run of each of these jobs."""
    history = context.stores.history
    yield from issues(live, now, lambda queue: jobs_in(context, queue))
    yield from of_failures(history.troubles(now - HOUR, TROUBLES), now)
    missed_ranges = history.missed_ranges(now - HOUR, TROUBLES)
    if missed_ranges:
        found = outages(missed_ranges, now)
        terms = context.stores.samples.terms(min(one.start for one in missed_ranges), _TERMS)
        yield from of_outages(found, terms, more=len(missed_ranges) == TROUBLES)
    yield from _late_ends(context, now)
    yield from _unreported(context)
    yield from _idle(context, jobs, planned, now)


def jobs_in(context: ApiContext, queue: str) -> list[str]:
    """Return the jobs of the newest runs that wait in a queue, by name."""
    found = context.stores.runs.list(RunFilter(states=_WAITING, queue=queue), _IN_QUEUE, None)
    return sorted({run.job_id or run.task for run in found.items})


def of_failures(troubles: Sequence[Trouble], now: Instant) -> Iterator[Issue]:
    """Tell of the largest groups of failures in the last hour, each with its runs and a retry; sum up the others."""
    groups = grouped(troubles, now, "1h")
    yield from map(_failure, groups[:_KINDS])
    rest = groups[_KINDS:]
    if rest:
        runs = sum(group.count for group in rest)
        kinds = "kind" if len(rest) == 1 else "kinds"
        text = f"{runs:,} more {_runs(runs)} of {len(rest):,} other {kinds} failed or were missed in the last hour."
        yield Issue(text, "/failures?within=1h", "Show them")
    if len(troubles) >= TROUBLES:
        yield Issue(
            f"These are the latest {TROUBLES:,} failures of the last hour; there are more.", "/failures?within=1h"
        )


def _failure(group: Group) -> Issue:
    of = f"{group.count:,} {_runs(group.count)} of {group.kind.job_id or group.kind.task}"
    link = f"/failures/runs?{group.link}"
    if group.kind.state is RunState.MISSED:
        text = f"{of} {'was' if group.count == 1 else 'were'} missed in the last hour: too late to start."
        return Issue(text, link, "Show them")
    error = ": ".join(filter(None, [group.kind.error_type, group.message[:120]]))
    text = f"{of} failed for good in the last hour{': ' if error else ''}{error}."
    return Issue(text, link, "Show them", retry=group)


def of_outages(found: Sequence[Outage], terms: Sequence[Term], *, more: bool = False) -> Iterator[Issue]:
    """Tell of each outage in one sentence, with its backfill; `terms` say when nobody led."""
    for outage in found[:_OUTAGES]:
        planned = "planned run" if outage.runs == 1 else "planned runs"
        jobs = f"{outage.jobs:,} {'job' if outage.jobs == 1 else 'jobs'}"
        absent = absence(terms, parse_instant(outage.start), parse_instant(outage.end))
        why = f"nobody led from {absent[0]} to {absent[1]}" if absent else f"from {outage.start} to {outage.last.iso}"
        asked = urlencode({"from": outage.start, "to": outage.end})
        or_more = " or more" if more else ""
        text = f"{outage.runs:,}{or_more} {planned} of {jobs} left out in the last hour: {why}."
        yield Issue(text, f"/failures/backfill?{asked}", "Backfill them…")
    if len(found) > _OUTAGES:
        yield Issue(f"{len(found) - _OUTAGES} more outages in the last hour.", "/failures?within=1h#gaps")


def absence(terms: Sequence[Term], start: Instant, end: Instant) -> tuple[str, str] | None:
    """Return from when to when nobody led in [start, end), by the newest terms first; None if somebody always did."""
    gaps = [(begin, over) for begin, over, _ in absences(terms) if begin < end and over > start]
    if not gaps:
        return None
    return format_instant(_whole(min(gap[0] for gap in gaps))), format_instant(_whole(max(gap[1] for gap in gaps)))


def _whole(at: Instant) -> Instant:
    return at - at % SECOND


def _late_ends(context: ApiContext, now: Instant) -> Iterator[Issue]:
    """Describe runs that missed their SLA."""
    missed = context.stores.history.sla_misses(now - DAY, TROUBLES)
    if missed:
        more = " or more" if len(missed) == TROUBLES else ""
        count = f"{len(missed)}{more} runs missed their SLA" if len(missed) > 1 else "1 run missed its SLA"
        yield Issue(f"{count} (must_end_within) in the last day.", f"/runs/{quote(missed[0].run_id, safe='')}")


def _unreported(context: ApiContext) -> Iterator[Issue]:
    """Describe notifications that were given up."""
    backlog = context.stores.outbox.backlog() if context.settings.notify_topics else None
    if backlog is not None and backlog.dead:
        count = f"{backlog.dead} {'notification was' if backlog.dead == 1 else 'notifications were'}"
        yield Issue(f"{count} given up, the last for {backlog.last_dead}; then itinerary notify retry.")


def _idle(
    context: ApiContext, jobs: Sequence[Job], planned: Mapping[str, Instant | None], now: Instant
) -> Iterator[Issue]:
    """Name jobs that have no next run, are not paused and never ran; a job meant to run once that ran is not named."""
    still = [job.job_id for job in jobs if planned[job.job_id] is None and not job.paused and not needs_place(job)]
    ran = context.stores.history.latest_of(still[:_IDLE], now, 1)
    never = [job_id for job_id in still[:_IDLE] if not ran[job_id]]
    if never:
        names = ", ".join(never[:_NAMED]) + (f" and {len(never) - _NAMED} more" if len(never) > _NAMED else "")
        yield Issue(f"Never ran, and never will: {names}.", f"/jobs/{quote(never[0])}")


def _runs(count: int) -> str:
    return "run" if count == 1 else "runs"
