"""Statements given to the driver as they were compiled once: the same rows, errors and listeners as SQLAlchemy's."""

from typing import Any, Final

import pytest
from sqlalchemy import BigInteger, Integer, Text, bindparam, cast, literal, literal_column, null, select, text, update

from itinerary.protocol.errors import RowRefused, StoreUnavailable
from itinerary.protocol.instants import MINUTE
from scheduler_service.core.leader.commands import Dispatch
from scheduler_service.sql.column_types import InstantColumn, PayloadText
from scheduler_service.sql.database import Database
from scheduler_service.sql.dialect import Dialect
from scheduler_service.sql.fence import fenced
from scheduler_service.sql.leader.dispatch import dispatch
from scheduler_service.sql.ready import ReadyStatement
from scheduler_service.sql.tables import leases
from tests.support.statements import noted
from tests.support.store_bed import StoreBed
from tests.support.work import calls_made

AT: Final = 1_796_000_000_123_456
_VALUES: Final = select(
    cast(bindparam("number", type_=BigInteger), BigInteger),
    cast(bindparam("at", type_=InstantColumn), InstantColumn),
    literal("%(x)s ? 100%", Text),
    cast(bindparam("args", type_=Text), PayloadText),
    cast(null(), InstantColumn),
)
GIVEN: Final[dict[str, Any]] = {"number": 7, "at": AT, "args": '{"a":[1]}'}
_RESIGN: Final = update(leases).where(leases.c.shard == bindparam("of_shard", type_=Integer)).values(resigned=True)
_OVER: Final = select(cast(bindparam("number", type_=Text), Integer) / literal_column("0"))


def database_of(bed: StoreBed) -> Database:
    assert bed.database is not None
    return bed.database


def test_rows_have_the_values_that_sqlalchemy_gives(sql_stores: StoreBed) -> None:
    with database_of(sql_stores).read() as connection:
        ready = ReadyStatement(lambda _: _VALUES).rows(connection, GIVEN)
        assert ready == [[*row] for row in connection.execute(_VALUES, GIVEN)]
    assert ready == [[7, AT, "%(x)s ? 100%", {"a": [1]}, None]]


def test_a_change_counts_its_rows_and_belongs_to_the_transaction(sql_stores: StoreBed) -> None:
    database = database_of(sql_stores)
    sql_stores.leases.acquire(0, "a", MINUTE)
    resign = ReadyStatement(lambda _: _RESIGN)
    with database.write() as connection:
        assert resign.count(connection, {"of_shard": 0}) == 1
        assert resign.count(connection, {"of_shard": 7}) == 0
        connection.rollback()
    view = sql_stores.leases.peek(0)
    assert view is not None
    assert not view.resigned


def test_what_the_database_refuses_is_our_error(sql_stores: StoreBed) -> None:
    at_first_only = ReadyStatement(lambda _: _VALUES)
    database = database_of(sql_stores)
    with pytest.raises(RowRefused), database.write() as connection:
        at_first_only.rows(connection, {**GIVEN, "number": 1 << 70})
    with database.write() as connection:
        assert at_first_only.rows(connection, GIVEN)[0][0] == 7


def test_a_connection_that_broke_is_not_used_again(postgres_stores: StoreBed) -> None:
    database = database_of(postgres_stores)
    ready = ReadyStatement(lambda _: _VALUES)

    def write_until_it_breaks() -> None:
        with database.write() as connection, database.beside().write() as other:
            pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
            while True:
                ready.rows(connection, GIVEN)

    with pytest.raises(StoreUnavailable):
        write_until_it_breaks()
    with database.write() as connection:
        assert ready.rows(connection, GIVEN)


def test_who_listens_to_statements_hears_of_these(sql_stores: StoreBed) -> None:
    database = database_of(sql_stores)
    with noted(database.engine) as seen, database.read() as connection:
        ReadyStatement(lambda _: _VALUES).rows(connection, GIVEN)
    assert len(seen) == 1


def test_a_dispatch_costs_few_calls(sql_stores: StoreBed) -> None:
    database, lease = database_of(sql_stores), sql_stores.leases.acquire(0, "a", MINUTE)
    assert lease is not None

    def write() -> None:
        with fenced(database, lease, by_controls=True) as connection:
            dispatch(connection, lease.term, [Dispatch("none", 1, 7)], AT, 0)

    for _ in range(7):  # psycopg prepares a statement after five
        write()
    # Through SQLAlchemy 648 and 945; 507 and 609 here. Some calls may wait for the database once more.
    most = 580 if database.dialect is Dialect.SQLITE else 780
    assert min(calls_made(write) for _ in range(5)) < most
