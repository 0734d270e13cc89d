"""How many runs of a job ended how, by consecutive times, counted by indexes. Only reads.

PostgreSQL needs no row of the table. SQLite reads them: to it a generated column is in no index.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from sqlalchemy import ColumnElement, Connection, Integer, func, literal_column, select

from itinerary.protocol.instants import Instant
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.timeline import Ends, JobEnds
from scheduler_service.sql.batch import PARAMETER, Batch
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.database import PLANNED_EACH_TIME
from scheduler_service.sql.dialect import dialect_of
from scheduler_service.sql.index_states import ended_as
from scheduler_service.sql.tables import runs

_R: Final = runs.c
_EACH: Final = {PLANNED_EACH_TIME: True}
_CELL: Final = Batch(place=Integer, since=InstantColumn, until=InstantColumn)
_SINCE: Final = literal_column(f"{PARAMETER}.since", InstantColumn)
_UNTIL: Final = literal_column(f"{PARAMETER}.until", InstantColumn)
# In the order of Ends. The index state of a completed run is NULL: so the index of a job's runs has it.
_ENDS: Final = (_R.standing.is_(None), ended_as(RunState.FAILED), ended_as(RunState.MISSED))


def ends_of_job(connection: Connection, job_id: str, edges: Sequence[Instant], most: int) -> JobEnds:
    """Count the newest `most` runs of the job that were scheduled between the edges."""
    since = _counted_since(connection, job_id, edges, most)
    first = edges[0] if since is None else since
    cells = [(n, max(begin, first), end) for n, (begin, end) in enumerate(pairwise(edges)) if end > first]
    ends = [Ends()] * (len(edges) - 1)
    rows = _CELL.rows(dialect_of(connection))
    counted = select(rows.c.place, *(_number(job_id, end) for end in _ENDS)).select_from(rows)
    for chunk in _CELL.chunks(cells):
        for place, *numbers in connection.execute(counted, chunk, execution_options=_EACH):
            ends[place] = Ends(*numbers)
    return JobEnds(ends, since)


def _counted_since(connection: Connection, job_id: str, edges: Sequence[Instant], most: int) -> Instant | None:
    """Return since when runs are counted if there are more than `most`."""
    within = (_R.job_id == job_id, _R.scheduled_at >= edges[0], _R.scheduled_at < edges[-1])
    left_out = select(_R.scheduled_at).where(*within).order_by(_R.scheduled_at.desc(), _R.id.desc())
    newest = connection.execute(left_out.offset(most).limit(1), execution_options=_EACH).scalar()
    return None if newest is None else newest + 1


def _number(job_id: str, end: ColumnElement[bool]) -> ColumnElement[int]:
    within = (_R.job_id == job_id, _R.scheduled_at >= _SINCE, _R.scheduled_at < _UNTIL, end)
    return select(func.count()).select_from(runs).where(*within).scalar_subquery()
