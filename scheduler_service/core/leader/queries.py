"""Answers from the leader's live state, as JSON. Reads the state only, and decides nothing.

run          {"run": {...} | null}
active_runs  {"runs": [...], "count": n}
job          {"job_id", "known", "live_runs"}
statistics   {"term", "since",
              "index_runs", "last_rebuild_at", "last_iteration_at", "oldest_due_at", "active_runs",
              "states": {state: n}, "workers": [...], "upcoming": [{"job_id", "scheduled_at"}],
              "queues": [{"name", "pending", "oldest_pending_at", "oldest_due_at", "workers"}]}
limits       {"limits":
              [{"name", "in_flight", "waiting", "waiting_is_exact", "busiest_keys": [{"key", "in_flight", "waiting"}]}]}

`known_tasks` says what `tasks` is. `core/leader/waits.py` answers `waiting` and `limit`. `progress` is in
`core/leader/parts/progress.py`.
"""

from collections.abc import Mapping, Set
from typing import Any, Final

from itinerary.protocol.instants import Instant, format_instant
from itinerary.protocol.wire import PROTOCOL_FIELD
from scheduler_service.core.index.snapshot import RunSlice
from scheduler_service.core.leader.holding import held_text
from scheduler_service.core.leader.job_states import is_paused
from scheduler_service.core.leader.limit_use import is_full, limit_uses
from scheduler_service.core.leader.messages import Query
from scheduler_service.core.leader.parts.workers import WORKER_ALIVE_FOR, WorkerView
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.leader.waits import named_limit, waiting
from scheduler_service.core.model import ActiveRun
from scheduler_service.core.policies import could_go_since
from scheduler_service.core.run_state import FINAL, WAITING, RunState

_MOST_LISTED: Final = 1000
_NEXT_LISTED: Final = 20
_MOST_TASKS: Final = 5_000


def answer(state: SchedulerState, query: Query, now: Instant) -> dict[str, Any]:
    """The body of the reply; an unknown query gets an error."""
    match query.what:
        case "run":
            run = state.runs.get(query.subject or "")
            return {"run": _with_progress(state, run) if run is not None else None}
        case "progress":
            return {"progress": state.progress.newest(_MOST_LISTED), "count": len(state.progress)}
        case "active_runs":
            active = list(state.runs)
            return {"runs": [_run(run) for run in active[:_MOST_LISTED]], "count": len(active)}
        case "job":
            job_id = query.subject or ""
            return {"job_id": job_id, "known": job_id in state.jobs, "live_runs": state.runs.live_of(job_id)}
        case "statistics":
            return {**statistics(state, now), "upcoming": upcoming(state, now)}
        case "waiting":
            return {"waiting": waiting(state, query.subject or "", now)}
        case "limit":
            return {"limit": named_limit(state, query.subject or "", now)}
        case "limits":
            return {"limits": limit_uses(state, now)}
        case "tasks":
            return known_tasks(state, now)
        case _:
            return {
                "error": f"unknown query {query.what[:40]!r}; "
                "ask run, progress, active_runs, job, statistics, waiting, limit, limits, "
                "tasks, distribution or metrics"
            }


def oldest_due(state: SchedulerState, now: Instant) -> Instant | None:
    """The due time of the run that has waited longest beyond it, in the database or in the broker's queue.

    Excludes paused and frozen runs, those that wait for a limit, and runs requested to queue behind their job's others.
    """
    return min(oldest_due_of_queues(state, now).values(), default=None)


def oldest_due_of_queues(state: SchedulerState, now: Instant) -> dict[str, Instant]:
    """The oldest due time by queue, for each queue that has one."""
    oldest: dict[str, Instant] = {}
    behind = state.dispatches.behind_limits()
    full = {queue for queue in state.dispatches.waiting if is_full(state, queue)}
    for run in state.runs:
        if run.due_at <= now and _is_waiting(state, run, now) and not _waits_for_limit(run, behind, full):
            since = could_go_since(run)
            if since is not None and since <= now:
                oldest[run.queue] = min(oldest.get(run.queue, since), since)
    return oldest


def _waits_for_limit(run: ActiveRun, behind: Set[str], full: Set[str]) -> bool:
    return run.state in WAITING and (run.run_id in behind or run.queue in full)


def worker_versions(state: SchedulerState, now: Instant) -> tuple[str, ...]:
    """The versions that living workers report, each once."""
    alive = (view.version for view in state.workers.by_name.values() if _alive(view, now))
    return tuple(sorted({version for version in alive if version is not None}))


def known_tasks(state: SchedulerState, now: Instant) -> dict[str, Any]:
    """The tasks that living workers know; `complete`: they know no other."""
    said = [view.tasks for view in state.workers.by_name.values() if _alive(view, now)]
    names = sorted({name for tasks in said if tasks is not None for name in tasks.names})
    complete = bool(said) and all(tasks is not None and tasks.complete for tasks in said)
    return {"tasks": names[:_MOST_TASKS], "complete": complete and len(names) <= _MOST_TASKS}


def alive_workers(state: SchedulerState, now: Instant) -> int:
    """The number of worker processes with a recent heartbeat."""
    return sum(_alive(view, now) for view in state.workers.by_name.values())


def _is_waiting(state: SchedulerState, run: ActiveRun, now: Instant) -> bool:
    return run.state is RunState.PENDING or (
        run.state in WAITING and not is_paused(state, run, now) and held_text(state, run, now) is None
    )


def statistics(state: SchedulerState, now: Instant) -> dict[str, Any]:
    """The leader's figures, its workers and its queues."""
    oldest_due = oldest_due_of_queues(state, now)
    return {
        "term": state.term,
        "since": format_instant(state.since),
        "index_runs": len(state.index),
        "last_rebuild_at": _text(state.rebuilds.last_at),
        "last_iteration_at": format_instant(state.last_iteration_at),
        "oldest_due_at": _text(min(oldest_due.values(), default=None)),
        "active_runs": state.runs.active(),
        "states": {s.value: n for s, n in state.runs.states.items() if n and s not in FINAL},
        "workers": [_worker(view, now) for view in sorted(state.workers.by_name.values(), key=lambda v: v.name)],
        "queues": _queues(state, oldest_due, now),
    }


def _queues(state: SchedulerState, oldest_due: Mapping[str, Instant], now: Instant) -> list[dict[str, Any]]:
    """Queues that have workers, pending runs or due runs."""
    listening: dict[str, int] = {}
    for view in state.workers.by_name.values():
        for name in view.queues:
            listening[name] = listening.get(name, 0) + _alive(view, now)
    oldest: dict[str, Instant] = {}
    for run in state.runs:
        if run.state is RunState.PENDING:
            oldest[run.queue] = min(oldest.get(run.queue, run.due_at), run.due_at)
    pending = state.runs.pending
    return [
        {
            "name": name,
            "pending": pending.get(name, 0),
            "oldest_pending_at": _text(oldest.get(name)),
            "oldest_due_at": _text(oldest_due.get(name)),
            "workers": listening.get(name, 0),
        }
        for name in sorted({*listening, *oldest_due, *(name for name, count in pending.items() if count)})
    ]


def upcoming(state: SchedulerState, now: Instant) -> list[dict[str, Any]]:
    """The next planned occurrences, as far as the index reaches."""
    index = state.index.snapshot
    first = int(index.times.searchsorted(now, side="right"))
    part = slice(first, first + _NEXT_LISTED)
    found = RunSlice(index.times[part], index.ordinals[part], index.job_ids)
    return [{"job_id": run.job_id, "scheduled_at": format_instant(run.scheduled_at)} for run in found]


def _alive(view: WorkerView, now: Instant) -> bool:
    return not view.left and now - view.last_seen_at < WORKER_ALIVE_FOR


def _worker(view: WorkerView, now: Instant) -> dict[str, Any]:
    return {
        "name": view.name,
        "alive": _alive(view, now),
        "last_seen_at": format_instant(view.last_seen_at),
        "concurrency": view.concurrency,
        "queues": list(view.queues),
        "running": list(view.running),
        PROTOCOL_FIELD: view.protocol,
        "version": view.version,
        "tasks": None if view.tasks is None else len(view.tasks.names),
        "since": _text(view.since),
    }


def _run(run: ActiveRun) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "job_id": run.job_id,
        "state": run.state.value,
        "attempt": run.attempt,
        "queue": run.queue,
        "due_at": format_instant(run.due_at),
        "worker": run.worker,
    }


def _with_progress(state: SchedulerState, run: ActiveRun) -> dict[str, Any]:
    shown = state.progress.of(run.run_id)
    return {**_run(run), "progress": None if shown is None else shown.body()}


def _text(instant: Instant | None) -> str | None:
    return None if instant is None else format_instant(instant)
