"""The two kinds of databases, and what differs in their SQL. A statement is built once for each."""

from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


class Dialect(StrEnum):
    """A kind of database, by SQLAlchemy's name."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"

    def insert(self, table: Table) -> Any:
        """Its own INSERT, with ON CONFLICT."""
        return postgresql.insert(table) if self is Dialect.POSTGRESQL else sqlite.insert(table)


def dialect_of(connection: Connection) -> Dialect:
    """The kind of database that this connection leads to."""
    return Dialect(connection.dialect.name)
