"""The runs beside a run: the one before and the one after it of its job, and those that run it again. Only reads."""

from functools import cache
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, Select, Text, bindparam, select
from sqlalchemy import tuple_ as row_of

from itinerary.protocol.json_text import is_storable
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.history import Outcome, Relatives
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.tables import runs

_R: Final = runs.c
_SHOWN: Final = (_R.run_id, _R.job_id, _R.state, _R.scheduled_at, _R.started_at, _R.finished_at)
_RUN_ID: Final = bindparam("asked", type_=Text)


def relatives_of(connection: Connection, run_id: str, limit: int) -> Relatives:
    """The relatives of a run; none of one that is not there."""
    if not is_storable(run_id):
        return Relatives()
    again = [_outcome(row) for row in connection.execute(_again(), {"asked": run_id, "limit": limit})]
    place = connection.execute(_place(), {"asked": run_id}).first()
    if place is None or place.job_id is None:
        return Relatives(again=tuple(again))
    own = {"job": place.job_id, "at": place.scheduled_at, "own": place.id}
    earlier, later = (connection.execute(_beside(forward), own).scalar() for forward in (False, True))
    return Relatives(earlier, later, tuple(again))


def _outcome(row: Any) -> Outcome:
    return Outcome(row.run_id, row.job_id, RunState(row.state), row.scheduled_at, row.started_at, row.finished_at)


@cache
def _place() -> Select[Any]:
    return select(_R.id, _R.job_id, _R.scheduled_at).where(_R.run_id == _RUN_ID)


@cache
def _again() -> Select[Any]:
    newest_first = select(*_SHOWN).where(_R.retry_of == _RUN_ID, _R.retry_of.is_not(None)).order_by(_R.id.desc())
    return newest_first.limit(bindparam("limit", type_=BigInteger))


@cache
def _beside(forward: bool) -> Select[Any]:
    """The next run of the job in its order, or the one before."""
    place = row_of(_R.scheduled_at, _R.id)
    own = row_of(bindparam("at", type_=InstantColumn), bindparam("own", type_=BigInteger))
    found = select(_R.run_id).where(_R.job_id == bindparam("job", type_=Text), place > own if forward else place < own)
    order = (_R.scheduled_at, _R.id) if forward else (_R.scheduled_at.desc(), _R.id.desc())
    return found.order_by(*order).limit(1)
