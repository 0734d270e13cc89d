"""Backfill: which occurrences of a past window to run manually, with their own times. Pure.

Promises: an occurrence that completed, is in flight or is still the leader's to plan is left out. Repeating a request
creates nothing twice, since each run's key is derived from what was known of its occurrence.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.identity import manual_run_id
from itinerary.protocol.instants import Instant, format_instant, parse_instant
from itinerary.protocol.limits import lane_of, uses_of
from scheduler_service.core.freezes import Freeze
from scheduler_service.core.model import Job, NewRun, Overlap, RunKind
from scheduler_service.core.run_state import WAITING, RunState
from scheduler_service.core.schedules.schedule import UNPLACED, next_after, upcoming

MOST: Final = 1_000
OVERLAPS: Final = (Overlap.QUEUE_ALL, Overlap.ALLOW)
_MOST_COUNTED: Final = 100_000
_SHOWN: Final = 10
_FIELDS: Final = ("from", "to", "dry_run", "overlap", "idempotency_key")
_MEANWHILE: Final = {
    Overlap.SKIP: "are skipped",
    Overlap.QUEUE: "are skipped while one of these waits",
    Overlap.QUEUE_ALL: "wait behind these",
    Overlap.CANCEL_RUNNING: "cancel the one of these that runs, and skip those that wait",
}


@dataclass(frozen=True, slots=True)
class Window:
    """The requested window: the occurrences in [`start`, `end`)."""

    start: Instant
    end: Instant
    overlap: Overlap = Overlap.QUEUE_ALL
    dry_run: bool = False


class PastRun(NamedTuple):
    """The relevant fields of an existing run of the job."""

    run_id: str
    scheduled_at: Instant
    state: RunState
    retry_of: str | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """The database's knowledge of a window: the runs at its occurrences, and later retries of these, by creation.

    Leaders have decided on the job's occurrences before `planned_until` (None: on all); rows from before `pruned_until`
    may be gone.
    """

    runs: Sequence[PastRun] = ()
    retries: Sequence[PastRun] = ()
    planned_until: Instant | None = None
    pruned_until: Instant | None = None


class Wanted(NamedTuple):
    """An occurrence to run, and its last unsuccessful run."""

    at: Instant
    after: str | None


@dataclass(frozen=True, slots=True)
class Backfill:
    """The plan of a window; `left_out` counts by reason."""

    job: Job
    window: Window
    occurrences: int
    wanted: tuple[Wanted, ...]
    left_out: Counter[str] = field(default_factory=Counter)


def read_window(body: Mapping[str, Any], now: Instant) -> Window:
    """Parse the request; BadValues with every error."""
    known = f"known are {', '.join(_FIELDS)}"
    errors = [BadValue(name, body[name], f"this field is not known; {known}") for name in sorted({*body} - {*_FIELDS})]
    start, end = (_time(body, name, errors) for name in ("from", "to"))
    dry_run, overlap = _given(body, "dry_run", False), _given(body, "overlap", Overlap.QUEUE_ALL.value)
    if not isinstance(dry_run, bool):
        errors.append(BadValue("dry_run", dry_run, "give true or false"))
    if overlap not in [choice.value for choice in OVERLAPS]:
        errors.append(BadValue("overlap", overlap, f"choose one of {', '.join(OVERLAPS)}"))
    if end is not None and end > now:
        errors.append(
            BadValue("to", body["to"], "give a time in the past: the schedule itself runs future occurrences")
        )
    elif start is not None and end is not None and start >= end:
        errors.append(BadValue("from", body["from"], "give a time before `to`"))
    if errors or start is None or end is None:
        raise BadValues(errors)
    return Window(start, end, Overlap(overlap), dry_run)


def _given(body: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return the value, or the default if there is none; a falsy value is judged as it is."""
    value = body.get(name)
    return default if value is None else value


def _time(body: Mapping[str, Any], name: str, errors: list[BadValue]) -> Instant | None:
    try:
        return parse_instant(body.get(name), name)
    except BadValue as exc:
        errors.append(exc)
        return None


def occurrences_of(job: Job, window: Window) -> list[Instant]:
    """Return the job's occurrences in the window, by its present schedule and bounds; BadValue if they are too many."""
    end = window.end if job.end_at is None else min(window.end, job.end_at)
    found = upcoming(job.schedule, window.start - 1, _MOST_COUNTED + 1, start_at=job.start_at, end_at=end)
    if len(found) > MOST:
        many = f"{len(found):,}" if len(found) <= _MOST_COUNTED else f"more than {_MOST_COUNTED:,}"
        text = f"the window holds {many} occurrences, and {MOST:,} is the most at once: end it at "
        raise BadValue("to", format_instant(window.end), text + format_instant(found[MOST]))
    return found


def plan_backfill(job: Job, window: Window, times: Sequence[Instant], known: Known) -> Backfill:
    """Plan each of `times`; BadValue if pruning has removed the record of their runs."""
    pruned_until = known.pruned_until
    if pruned_until is not None and any(job.created_at <= at < pruned_until for at in times):
        text = f"runs of before {format_instant(pruned_until)} were pruned, and which of them completed is not known"
        raise BadValue("from", format_instant(window.start), f"{text}: begin there")
    tried = _tried(known)
    wanted: list[Wanted] = []
    left_out: Counter[str] = Counter(completed=0, active=0, planned=0)
    for at in times:
        runs = tried.get(at, [])
        why = _why_not(runs)
        if why is None and known.planned_until is not None and at >= known.planned_until:
            why = "planned"
        if why is None:
            wanted.append(Wanted(at, runs[-1].run_id if runs else None))
        else:
            left_out[why] += 1
    return Backfill(job, window, len(times), tuple(wanted), left_out)


def _tried(known: Known) -> dict[Instant, list[PastRun]]:
    """Return the runs of each occurrence, including manual retries of these."""
    tried: dict[Instant, list[PastRun]] = defaultdict(list)
    occurrence_of: dict[str, Instant] = {}
    for run in known.runs:
        tried[run.scheduled_at].append(run)
        occurrence_of[run.run_id] = run.scheduled_at
    for run in known.retries:
        at = occurrence_of.get(run.retry_of or "")
        if at is not None and run.run_id not in occurrence_of:
            tried[at].append(run)
            occurrence_of[run.run_id] = at
    return tried


def _why_not(runs: Iterable[PastRun]) -> str | None:
    states = {run.state for run in runs}
    if RunState.COMPLETED in states:
        return "completed"
    if states & {RunState.PENDING, RunState.RUNNING, RunState.RETRYING}:
        return "active"
    return "planned" if states & WAITING else None


def backfill_runs(plan: Backfill, uuids: Iterable[str]) -> list[NewRun]:
    """Return the runs to enqueue, due at once. Keys and ids follow the time, the order in which they run."""
    return [_run(plan, one, uuid7) for one, uuid7 in zip(plan.wanted, sorted(uuids), strict=True)]


def _run(plan: Backfill, one: Wanted, uuid7: str) -> NewRun:
    job, at = plan.job, format_instant(one.at)
    key = f"backfill:{at}:{job.job_id}" if one.after is None else f"backfill:{at}:after:{one.after}"
    limits, fair_key = uses_of(job.limits, job.fair_key, job.args, job.kwargs, [])
    return NewRun(
        run_id=manual_run_id(job.job_id, uuid7), kind=RunKind.MANUAL, task=job.task, scheduled_at=one.at, due_at=0,
        job_id=job.job_id, job_version=job.version, args=job.args, kwargs=job.kwargs, queue=job.queue,
        priority=job.priority, retry=job.retry, timeout=job.timeout, overlap=plan.window.overlap, retry_of=one.after,
        idempotency_key=key, headers=job.run_headers, limits=limits, lane=lane_of(limits, fair_key, job.job_id),
    )  # fmt: skip


def backfill_body(plan: Backfill, created: Sequence[str], freezes: Iterable[Freeze]) -> dict[str, Any]:
    """Return the result or the plan as the API shows it; `freezes` hold the job now.

    Runs that another caller created meanwhile count as planned.
    """
    runs = len(plan.wanted) if plan.window.dry_run else len(created)
    left_out = Counter(plan.left_out)
    left_out["planned"] += len(plan.wanted) - runs
    return {
        "job_id": plan.job.job_id,
        "from": format_instant(plan.window.start),
        "to": format_instant(plan.window.end),
        "overlap": plan.window.overlap.value,
        "dry_run": plan.window.dry_run,
        "occurrences": plan.occurrences,
        "left_out": dict(left_out),
        "runs": runs,
        "first": [format_instant(one.at) for one in plan.wanted[:_SHOWN]],
        "run_ids": list(created),
        "warnings": [*_warnings(plan), *(f"the runs wait: {one.held()}" for one in freezes if plan.wanted)],
    }


def _warnings(plan: Backfill) -> list[str]:
    job, window = plan.job, plan.window
    if not plan.occurrences:
        following = next_after(job.schedule, window.start, start_at=job.start_at, end_at=job.end_at)
        after = "" if following is None or following >= UNPLACED else f"; the first one is {format_instant(following)}"
        return [f"the job's schedule has no occurrence in this window{after}"]
    return [*_of_calendars(job), *_of_overlap(plan)]


def _of_calendars(job: Job) -> list[str]:
    if job.calendars is None:
        return []
    named = ", ".join(job.calendars.ids)
    return [
        f"its days are those that its calendars ({named}) leave it now: one that they closed then counts as not run"
    ]


def _of_overlap(plan: Backfill) -> list[str]:
    job = plan.job
    meanwhile = _MEANWHILE.get(job.overlap)
    if not plan.wanted or job.paused or meanwhile is None:
        return []
    return [f"occurrences of the job that fall due meanwhile {meanwhile}: its overlap rule is {job.overlap}"]
