"""The callers' connections that `enqueue_in` takes: each answers its queries, in the transaction that is open there.

Imports a driver only if it was given one of its connections.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from itinerary.client.run_inserts import Insert, Query
from itinerary.protocol.errors import BadValue

_ALLOWED: Final = (
    "give a connection of psycopg or Django, or an SQLAlchemy Connection or Session, to Itinerary's PostgreSQL database"
)


@dataclass(frozen=True, slots=True)
class DbApi:
    """A connection of the DB-API with `%(name)s` parameters: psycopg, psycopg2, Django's."""

    connection: Any
    runs: str

    def answer(self, query: Query) -> Any:
        """The number of rows it inserted, or the rows it read."""
        statement, values = filled(query, self.runs, lambda name, _: f"%({name})s")
        is_psycopg = any(home(kind) == "psycopg" for kind in type(self.connection).__mro__)
        with closing(_tuple_cursor(self.connection) if is_psycopg else self.connection.cursor()) as cursor:
            # By name, psycopg would prepare a frequent statement, and a pooler would give that to other clients.
            cursor.execute(statement, values, **({"prepare": False} if is_psycopg else {}))
            if isinstance(query, Insert):
                return int(cursor.rowcount)
            return [tuple(row.values() if isinstance(row, Mapping) else row) for row in cursor.fetchall()]


def _tuple_cursor(connection: Any) -> Any:
    """A cursor whose rows are tuples, whatever those of the program's own are."""
    from psycopg.rows import tuple_row

    return connection.cursor(row_factory=tuple_row)


@dataclass(frozen=True, slots=True)
class SqlAlchemy:
    """A Connection of SQLAlchemy with any driver."""

    connection: Any
    runs: str

    def answer(self, query: Query) -> Any:
        """As `DbApi.answer`."""
        return executed_by_sqlalchemy(self.connection, query, self.runs)


def executed_by_sqlalchemy(connection: Any, query: Query, runs: str) -> Any:
    """The answer of a blocking Connection of SQLAlchemy."""
    from sqlalchemy import text

    # As texts, since some drivers take a parameter only in the type that its cast expects.
    statement, values = filled(query, runs, lambda name, _: f"CAST(:{name} AS text)")
    texts = {name: None if value is None else str(value) for name, value in values.items()}
    result = connection.execute(text(statement), texts)
    return int(result.rowcount) if isinstance(query, Insert) else [tuple(row) for row in result]


def target_of(given: Any, schema: str | None) -> DbApi | SqlAlchemy:
    """The caller's connection or session; BadValue if it cannot be used so."""
    runs = table(schema)
    homes = {home(kind) for kind in type(given).__mro__}
    shown = f"{type(given).__module__}.{type(given).__qualname__}"
    if "Async" in type(given).__name__ or homes & {"asyncpg", "sqlite3"}:
        raise BadValue("connection_or_session", shown, f"{_ALLOWED}; in async code use enqueue_in_async")
    if "sqlalchemy" in homes:
        connection = given.connection() if hasattr(given, "get_bind") else given
        if not is_for_sqlalchemy(connection):
            raise BadValue("connection_or_session", shown, _ALLOWED)
        return SqlAlchemy(connection, runs)
    # A connection of Django says which database it is for.
    if not hasattr(given, "cursor") or getattr(given, "vendor", "postgresql") != "postgresql":
        raise BadValue("connection_or_session", shown, _ALLOWED)
    return DbApi(given, runs)


def is_for_sqlalchemy(connection: Any) -> bool:
    """Whether this is a connection of SQLAlchemy to PostgreSQL, and no engine."""
    dialect = getattr(connection, "dialect", None)
    return hasattr(connection, "execute") and getattr(dialect, "name", None) == "postgresql"


def home(kind: type) -> str:
    """The package of a class."""
    return kind.__module__.partition(".")[0]


def table(schema: str | None) -> str:
    """The table of runs; BadValue for what cannot be a schema's name."""
    if schema is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", schema, re.ASCII):
        raise BadValue("schema", schema, "give the name of a schema, in letters, digits and _")
    return "runs" if schema is None else f'"{schema}".runs'


def filled(query: Query, runs: str, parameter: Callable[[str, int], str]) -> tuple[str, dict[str, Any]]:
    """The statement with the driver's parameters, each by its name and its place from 1, and their values in order."""
    statement, values = query.sql()
    return statement.format(runs=runs, **{name: parameter(name, place) for place, name in enumerate(values, 1)}), values
