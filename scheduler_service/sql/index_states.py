"""Runs by their states, each part as its own index finds it: rare and common states have different ones."""

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from itinerary.protocol.instants import MINUTE, Instant
from scheduler_service.core.run_state import ACTIVE, FINAL, IN_FLIGHT, RunState
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.tables import ENDED_OTHERWISE, IS_TRACKED, among, has_index_state, runs

IS_COMPLETED: Final = among(runs.c.state, frozenset({RunState.COMPLETED}))
_PUT_BACK: Final = MINUTE


class _OnSqlite(FunctionElement[bool]):
    """A condition that says no more than the others do, for SQLite, which draws no conclusion from them.

    PostgreSQL does, and would take it for one more condition that few rows pass. It then sorts all rows of a state, and
    leaves the index that has them in order.
    """

    name = "on_sqlite"
    inherit_cache = True


@compiles(_OnSqlite)
def _stated(element: _OnSqlite, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(_OnSqlite, "postgresql")
def _left_out(_element: _OnSqlite, _compiler: Any, **_options: Any) -> str:
    return "true"


def ended_as(state: RunState) -> ColumnElement[bool]:
    """Runs that ended in this state, which is not `completed`: their indexes are of those alone."""
    return and_(has_index_state(state), _OnSqlite(ENDED_OTHERWISE))


def are_over(now: Instant) -> ColumnElement[bool]:
    """Runs that may have completed by `now`, if not by more than the database's clock may have been put back since.

    Only the index by time has completed runs: without a bound a list passes all that is planned for later.
    """
    return runs.c.scheduled_at < literal(now + _PUT_BACK, InstantColumn)


def in_states(states: Iterable[RunState], now: Instant) -> list[ColumnElement[bool]]:
    """Runs in these states, as parts that an index finds each; empty if no state is given. `now` is the database's."""
    wanted = frozenset(states)
    tracked = [and_(IS_TRACKED, among(runs.c.state, wanted & ACTIVE))] if wanted & ACTIVE else []
    completed = [and_(IS_COMPLETED, are_over(now))] if RunState.COMPLETED in wanted else []
    waiting = [has_index_state(state) for state in sorted(wanted & ACTIVE - IN_FLIGHT)]
    return [*tracked, *completed, *waiting, *map(ended_as, sorted(wanted & FINAL - {RunState.COMPLETED}))]
