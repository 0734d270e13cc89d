"""What a leader and the lists ask of a long history, and how many pages of PostgreSQL each of it reads.

Pages read say how work grows with history whatever else the machine does; a time does not.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Engine, event

from itinerary.protocol.instants import DAY, HOUR, SECOND, Instant
from scheduler_service.core.contract.pruning import Past
from scheduler_service.core.leader.commands import Apply, CreateRuns, Dispatch, Transition
from scheduler_service.core.leader.lane_reads import LanePage
from scheduler_service.core.model import Lease
from scheduler_service.core.run_state import ACTIVE, Event, RunState
from scheduler_service.ports.lists import Order, RunFilter, RunSort
from scheduler_service.ports.timeline import LaneKind, Span
from scheduler_service.sql.pruning import SqlPruning
from scheduler_service.sql.sla import SqlSlaStore
from scheduler_service.sql.timeline import SqlTimelineStore
from tests.support.store_bed import StoreBed, a_job, occurrence, one_off

AT_ONCE: Final = 50
_EXPLAIN: Final = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "
_EXPLAINED: Final = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")


@dataclass(slots=True)
class Pages:
    """What some calls read: pages of tables and indexes, and the milliseconds that it took; `worst` is a statement."""

    number: int = 0
    milliseconds: float = 0
    worst: tuple[int, str] = field(default=(0, ""))

    def add(self, plan: Any, statement: str) -> None:
        """Count what EXPLAIN says of a statement that it carried out."""
        top = plan[0]["Plan"]
        read = top["Shared Hit Blocks"] + top["Shared Read Blocks"]
        self.number += read
        self.milliseconds += plan[0]["Execution Time"]
        self.worst = max(self.worst, (read, statement))


@contextmanager
def counting() -> Iterator[Pages]:
    """Explain each statement where it is carried out: what it changes is taken back, then it runs as it was to."""
    pages = Pages()

    def explain(connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        if many or not statement.lstrip().upper().startswith(_EXPLAINED):
            return
        writes = not connection.connection.driver_connection.autocommit
        if writes:
            connection.exec_driver_sql("SAVEPOINT explained")
        found = connection.exec_driver_sql(_EXPLAIN + statement, parameters).scalar_one()
        if writes:
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT explained")
        pages.add(json.loads(found) if isinstance(found, str) else found, statement)

    event.listen(Engine, "before_cursor_execute", explain)
    try:
        yield pages
    finally:
        event.remove(Engine, "before_cursor_execute", explain)


def leader_calls(bed: StoreBed, lease: Lease) -> dict[str, Callable[[], object]]:
    """The statements of a leader's life with 50 runs, its polls, its takeover and its pruning, in this order."""
    assert bed.database is not None
    now = lease.now
    # Of jobs among all, most of which never ran.
    runs = tuple(occurrence(a_job(f"job-{n * 1_999:06d}"), now + HOUR) for n in range(AT_ONCE))
    chosen = [Dispatch(run.run_id, 1, 1 + n) for n, run in enumerate(runs)]
    requested = [one_off(now) for _ in range(AT_ONCE)]
    dispatches = [Dispatch(run.run_id, 1, 1 + n) for n, run in enumerate(requested)]
    started = tuple(Transition(one.run_id, 1, Event.START, RunState.RUNNING, now, worker="w") for one in requested)
    ended = tuple(Transition(one.run_id, 1, Event.SUCCEED, RunState.COMPLETED, now) for one in requested)
    pruning, old = SqlPruning(bed.database), now - 29 * DAY
    names: list[Any] = []
    return {
        "create 50 occurrences": lambda: bed.leader.create_runs(lease, CreateRuns(runs, cursor=now)),
        "dispatch 50 occurrences": lambda: bed.leader.dispatch_runs(lease, chosen, now + 2 * HOUR),
        "enqueue 50": lambda: bed.runs.enqueue(requested),
        "due runs": lambda: bed.leader.due_runs(now + SECOND, 1_000),
        "overdue runs": lambda: bed.leader.overdue_runs(now, 1_000, None),
        "lanes of a queue": lambda: bed.leader.waiting_lanes("default", "", 500),
        "heads of lanes": lambda: bed.leader.lane_heads(now + SECOND, [LanePage("default", "")], 64),
        "start deadlines": lambda: bed.leader.expired_runs(now, 1_000, None),
        "cancel requests": lambda: bed.leader.cancel_requests(1_000, None),
        "dispatch 50": lambda: bed.leader.dispatch_runs(lease, dispatches, now + SECOND),
        "50 have started": lambda: bed.leader.apply(lease, Apply(started)),
        "read 50 runs": lambda: bed.leader.read_runs([run.run_id for run in requested]),
        "50 have ended": lambda: bed.leader.apply(lease, Apply(ended)),
        "takeover: runs": lambda: bed.leader.active_runs(),
        "takeover: cursor": lambda: bed.leader.cursor(lease),
        "edited jobs": lambda: bed.leader.unplanned_jobs(1_000),
        "deadlines of ends": lambda: SqlSlaStore(bed.database).judge(0, 1_000),  # type: ignore[arg-type]
        "pruning: what is needed": lambda: pruning.needs(),
        "pruning: find 500": lambda: names.extend(pruning.scan(Past.RUNS, old, None, 500).may_go),
        "pruning: delete 500": lambda: pruning.prune(lease, Past.RUNS, names, old),
    }


def list_calls(bed: StoreBed, now: Instant) -> dict[str, Callable[[], object]]:
    """What lists, pages of a run or a job, and the timeline read."""
    assert bed.database is not None
    runs, history, timeline = bed.runs, bed.history, SqlTimelineStore(bed.database)
    (newest,) = runs.list(RunFilter(states=(RunState.COMPLETED,)), 1, None).items
    deep = runs.list(RunFilter(until=now - 20 * DAY), 1, None).next_cursor
    wanted = {
        "all": RunFilter(),
        "before a time": RunFilter(until=now - 20 * DAY),
        "of the busiest job": RunFilter(job_id="job-000000"),
        "of a job with few": RunFilter(job_id="job-001999"),
        "of a queue": RunFilter(queue="mail"),
        "of a queue, completed": RunFilter(queue="mail", states=(RunState.COMPLETED,)),
        "of a rare queue": RunFilter(queue="rare"),
        "failed": RunFilter(states=(RunState.FAILED,)),
        "failed, of a job": RunFilter(job_id="job-000000", states=(RunState.FAILED,)),
        "failed, of a queue": RunFilter(queue="mail", states=(RunState.FAILED,)),
        "failed or cancelled": RunFilter(states=(RunState.FAILED, RunState.CANCELLED)),
        "not final": RunFilter(states=tuple(ACTIVE)),
        "of a task that is not there": RunFilter(task="nobody.knows"),
    }
    lists: dict[str, Callable[[], object]] = {
        f"list: runs {name}": lambda one=one: runs.list(one, 50, None)  # type: ignore[misc]
        for name, one in wanted.items()
    }
    counts: dict[str, Callable[[], object]] = {
        f"count: runs {name}": lambda one=one: history.count_runs(one)  # type: ignore[misc]
        for name, one in wanted.items()
    }
    sorts: dict[str, Callable[[], object]] = {
        f"list: runs by {by.value}": lambda by=by: runs.list(RunFilter(), 50, None, Order(by, True))  # type: ignore[misc]
        for by in RunSort
    }
    span = Span(now - 7 * DAY, now, 60)
    return {
        **lists, **counts, **sorts,
        "list: runs far back": lambda: runs.list(RunFilter(), 50, deep),
        "a run": lambda: runs.get(newest.run_id),
        "a run's neighbours": lambda: history.relatives(newest.run_id, 20),
        "newest of 50 jobs": lambda: history.latest_of([f"job-{n:06d}" for n in range(50)], now, 20),
        "newest of all": lambda: history.latest(now - DAY, now, 100),
        "troubles of a day": lambda: history.troubles(now - DAY, 500),
        "counts of states": lambda: history.active_counts(10_000),
        "timeline of 7 days, counted": lambda: timeline.size(span, RunFilter()),
        "timeline of 7 days, few": lambda: timeline.few(LaneKind.JOB, span, RunFilter(), 2_000),
        "timeline of 7 days, failed": lambda: timeline.counts(
            LaneKind.JOB, span, RunFilter(states=(RunState.FAILED,)), first=0, lanes=20
        ),
    }  # fmt: skip
