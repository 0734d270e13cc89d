"""HistoryStore in SQL: the history that pages show. Each statement is bounded and has an index to scan. Only reads."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import structlog
from sqlalchemy import BigInteger, ColumnElement, Select, Text, bindparam, func, literal_column, select, union_all
from sqlalchemy.sql.selectable import CompoundSelect

from itinerary.protocol.batches import batched
from itinerary.protocol.instants import Instant
from itinerary.protocol.json_text import is_storable
from scheduler_service.core.explain.facts import Version
from scheduler_service.core.model import MissedRange
from scheduler_service.core.policies import OVERLAP_WORD
from scheduler_service.core.run_state import ACTIVE, WAITING, RunState
from scheduler_service.ports.history import HistoryStore, Outcome, Relatives, Total, Trouble
from scheduler_service.ports.sla import SlaMiss
from scheduler_service.ports.stores import JobFilter, RunFilter
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.counts import jobs_total, runs_total, total_of
from scheduler_service.sql.database import PLANNED_EACH_TIME, Database
from scheduler_service.sql.dialect import Dialect
from scheduler_service.sql.job_rows import VERSION_COLUMNS, version_of
from scheduler_service.sql.run_relatives import relatives_of
from scheduler_service.sql.sla import sla_misses
from scheduler_service.sql.tables import IS_TRACKED, IS_TROUBLE, gaps, has_index_state, job_versions, runs

_R: Final = runs.c
_BONES: Final = (_R.run_id, _R.job_id, _R.state, _R.scheduled_at, _R.started_at, _R.finished_at, _R.job_version)
_MISSED_RANGE: Final = (gaps.c.job_id, gaps.c.start_at, gaps.c.end_at, gaps.c["count"], gaps.c.reason)
_JOBS_AT_ONCE: Final = 50
_ERROR_LENGTH: Final = 200
_EACH: Final = {PLANNED_EACH_TIME: True}
_SINCE: Final = bindparam("since", type_=InstantColumn)
_UNTIL: Final = bindparam("until", type_=InstantColumn)
_LIMIT: Final = bindparam("limit", type_=BigInteger)

log = structlog.get_logger(__name__)


class SqlHistoryStore(HistoryStore):
    """HistoryStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count_runs(self, wanted: RunFilter) -> Total:
        if not is_storable(f"{wanted.job_id}{wanted.queue}{wanted.task}{wanted.limit_name}{wanted.limit_key}"):
            return Total(0, False)
        with self._database.read() as connection:
            now = self._database.read_clock(connection) if RunState.COMPLETED in wanted.states else 0
            scans = [connection.execute(scan, execution_options=_EACH).one() for scan in runs_total(wanted, now)]
        return total_of([(scanned, matching) for scanned, matching in scans])

    def count_jobs(self, wanted: JobFilter) -> Total:
        if not is_storable(f"{wanted.tag}{wanted.text}{wanted.source}{wanted.queue}{wanted.task}"):
            return Total(0, False)
        with self._database.read() as connection:
            now = self._database.read_clock(connection) if wanted.last_states else 0
            scanned, matching = connection.execute(jobs_total(wanted, now), execution_options=_EACH).one()
        return total_of([(scanned, matching)])

    def latest(self, since: Instant, until: Instant, limit: int) -> list[Outcome]:
        with self._database.read() as connection:
            rows = connection.execute(_latest(), {"since": since, "until": until, "limit": limit})
            return [_outcome(row) for row in rows]

    def latest_of(self, job_ids: Sequence[str], until: Instant, limit: int) -> Mapping[str, list[Outcome]]:
        found: dict[str, list[Outcome]] = {job_id: [] for job_id in job_ids if is_storable(job_id)}
        with self._database.read() as connection:
            for part in batched(list(found), _JOBS_AT_ONCE):
                padded = [*part, *[""] * (_JOBS_AT_ONCE - len(part))]  # no job has this id
                named = {f"job_{place}": job_id for place, job_id in enumerate(padded)}
                for row in connection.execute(_latest_of(), {**named, "until": until, "limit": limit}):
                    found[row.job_id].append(_outcome(row))
        return found

    def relatives(self, run_id: str, limit: int) -> Relatives:
        with self._database.read() as connection:
            return relatives_of(connection, run_id, limit)

    def troubles(self, since: Instant, limit: int) -> list[Trouble]:
        with self._database.read() as connection:
            rows = connection.execute(_troubles(self._database.dialect), {"since": since, "limit": limit})
            return [_trouble(row) for row in rows]

    def sla_misses(self, since: Instant, limit: int) -> list[SlaMiss]:
        with self._database.read() as connection:
            return sla_misses(connection, since, limit)

    def missed_ranges(self, since: Instant, limit: int) -> list[MissedRange]:
        unwanted = gaps.c.reason.not_like(f"{OVERLAP_WORD} %")
        found = select(*_MISSED_RANGE).where(gaps.c.end_at >= since, unwanted)
        latest_first = found.order_by(gaps.c.end_at.desc(), gaps.c.id.desc())
        with self._database.read() as connection:
            return [MissedRange(*row) for row in connection.execute(latest_first.limit(limit))]

    def missed_ranges_of(self, job_id: str, limit: int) -> list[MissedRange]:
        if not is_storable(job_id):
            return []
        newest_first = select(*_MISSED_RANGE).where(gaps.c.job_id == job_id).order_by(gaps.c.start_at.desc())
        with self._database.read() as connection:
            return [MissedRange(*row) for row in connection.execute(newest_first.limit(limit))]

    def versions(self, job_id: str, limit: int) -> list[Version]:
        if not is_storable(job_id):
            return []
        columns = (*VERSION_COLUMNS, job_versions.c.actor)
        newest_first = (
            select(*columns).where(job_versions.c.job_id == job_id).order_by(job_versions.c.version.desc()).limit(limit)
        )
        with self._database.read() as connection:
            rows = connection.execute(newest_first).all()
        return [version for row in rows if (version := version_of(job_id, row)) is not None]

    def active_counts(self, most: int) -> Mapping[RunState, int]:
        with self._database.read() as connection:
            found = Counter[RunState]()
            for state, number in connection.execute(_counts(), {"limit": most}):
                found[RunState(state)] += number
        return {state: min(found[state], most) for state in RunState if state in ACTIVE}


def _outcome(row: Sequence[Any]) -> Outcome:
    run_id, job_id, state, *times = row
    return Outcome(run_id, job_id, RunState(state), *times)


def _trouble(row: Sequence[Any]) -> Trouble:
    run_id, job_id, task, state, reason, error_type, message, finished_at = row
    return Trouble(run_id, job_id, task, RunState(state), reason, error_type, message, finished_at)


@cache
def _latest() -> Select[Any]:
    return (
        select(*_BONES)
        .where(_R.scheduled_at >= _SINCE, _R.scheduled_at < _UNTIL)
        .order_by(_R.scheduled_at.desc(), _R.id.desc())
        .limit(_LIMIT)
    )


@cache
def _latest_of() -> CompoundSelect[Any]:
    """Select the latest runs of each job separately, in one short index scan each."""
    of_jobs = [
        select(*_BONES)
        .where(_R.job_id == bindparam(f"job_{place}", type_=Text), _R.scheduled_at < _UNTIL)
        .order_by(_R.scheduled_at.desc(), _R.id.desc())
        .limit(_LIMIT)
        .subquery(f"of_{place}")
        for place in range(_JOBS_AT_ONCE)
    ]
    return union_all(*(select(of_job) for of_job in of_jobs))


@cache
def _troubles(dialect: Dialect) -> Select[Any]:
    columns = (func.substr(_R.reason, 1, _ERROR_LENGTH), _of_error(dialect, "type"), _of_error(dialect, "message"))
    return (
        select(_R.run_id, _R.job_id, _R.task, _R.state, *columns, _R.finished_at)
        .where(IS_TROUBLE, _R.finished_at >= _SINCE)
        .order_by(_R.finished_at.desc(), _R.id.desc())
        .limit(_LIMIT)
    )


def _of_error(dialect: Dialect, name: str) -> ColumnElement[Any]:
    if dialect is Dialect.SQLITE:
        found = func.json_extract(_R.error, literal_column(f"'$.{name}'"))
    else:
        found = func.json_extract_path_text(_R.error, literal_column(f"'{name}'"))
    return func.substr(found, 1, _ERROR_LENGTH, type_=Text)


@cache
def _counts() -> CompoundSelect[Any]:
    """Count the tracked runs by state in one scan, and each other group by its own index."""
    tracked = select(_R.state, func.count()).where(IS_TRACKED).group_by(_R.state)
    asked_for = []
    for state in sorted(WAITING):
        few = (
            select(literal_column("1").label("one"))
            .where(has_index_state(state))
            .limit(_LIMIT)
            .subquery(f"{state}_few")
        )
        name: ColumnElement[Any] = literal_column(f"'{state}'")
        asked_for.append(select(name.label("state"), select(func.count()).select_from(few).scalar_subquery()))
    return union_all(tracked, *asked_for)
