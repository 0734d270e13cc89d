"""The two kinds of databases, and what differs in their SQL. A statement is built once for each."""

from datetime import timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Table, bindparam, cast, extract, func, literal
from sqlalchemy.dialects import postgresql, sqlite

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.sql.column_types import InstantColumn


class Dialect(StrEnum):
    """A kind of database, by SQLAlchemy's name."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"

    def insert(self, table: Table) -> Any:
        """Its own INSERT, with ON CONFLICT."""
        return postgresql.insert(table) if self is Dialect.POSTGRESQL else sqlite.insert(table)

    def clock(self) -> ColumnElement[Instant]:
        """The database's clock in a statement that is built once; of SQLite the parameter `now`, this host's clock."""
        if self is Dialect.SQLITE:
            return bindparam("now", type_=InstantColumn)
        return func.clock_timestamp(type_=InstantColumn)

    def later(self, instant: ColumnElement[Instant], by: Duration) -> ColumnElement[Instant]:
        """The instant, `by` later."""
        plus = literal(timedelta(microseconds=by)) if self is Dialect.POSTGRESQL else literal(by, BigInteger)
        return instant.op("+", return_type=InstantColumn())(plus)

    def microseconds(self, instant: ColumnElement[Instant]) -> ColumnElement[int]:
        """The instant as a whole number."""
        if self is Dialect.SQLITE:
            return cast(instant, BigInteger)
        return cast(extract("epoch", instant) * 1_000_000, BigInteger)


def dialect_of(connection: Connection) -> Dialect:
    """The kind of database that this connection leads to."""
    return Dialect(connection.dialect.name)
