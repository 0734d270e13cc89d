"""Statements of the leader's busiest transactions, compiled once and then given to the driver as they are.

SQLAlchemy composes them, converts their values, and owns connection and transaction. Only its own work at each
execution is left out, which takes longer than the driver's. Promises the rows and the errors that it would give, and
that its listeners to statements are told of these too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection, exc

from scheduler_service.sql.dialect import Dialect, dialect_of

_Convert: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Compiled:
    text: str
    given: Mapping[str, Any]
    converted: tuple[tuple[str, _Convert], ...]
    places: tuple[str, ...] | None
    read: tuple[tuple[int, _Convert], ...]

    def values(self, parameters: Mapping[str, Any]) -> Any:
        """The parameters as the driver takes them."""
        values = {**self.given, **parameters}
        for name, convert in self.converted:
            values[name] = convert(values[name])
        return values if self.places is None else tuple(values[name] for name in self.places)


class ReadyStatement:
    """A statement that `build` composes for each kind of database, of which every parameter has a name."""

    def __init__(self, build: Callable[[Dialect], Any]) -> None:
        self._build = build
        self._compiled: dict[Dialect, _Compiled] = {}

    def rows(self, connection: Connection, parameters: Mapping[str, Any]) -> list[list[Any]]:
        """Execute it; the rows that it returns, their values converted."""
        compiled, found = self._execute(connection, parameters, lambda cursor: cursor.fetchall())
        rows = [*map(list, found)]
        for place, convert in compiled.read:
            for row in rows:
                row[place] = convert(row[place])
        return rows

    def count(self, connection: Connection, parameters: Mapping[str, Any]) -> int:
        """Execute it; the number of rows that it changed."""
        count: int = self._execute(connection, parameters, lambda cursor: cursor.rowcount)[1]
        return count

    def _execute(
        self, connection: Connection, parameters: Mapping[str, Any], read: Callable[[Any], Any]
    ) -> tuple[_Compiled, Any]:
        dialect = dialect_of(connection)
        compiled = self._compiled.get(dialect)
        if compiled is None:  # two threads may both compile it
            compiled = self._compiled[dialect] = _compile(connection, self._build(dialect))
        text, values = compiled.text, compiled.values(parameters)
        cursor: Any = connection.connection.cursor()
        for note in connection.dispatch.before_cursor_execute:
            text, values = note(connection, cursor, text, values, None, False)
        try:
            cursor.execute(text, values)
            found = read(cursor)
            cursor.close()
        except connection.dialect.loaded_dbapi.Error as error:
            raise _wrapped(connection, cursor, text, values, error) from error
        return compiled, found


def _compile(connection: Connection, statement: Any) -> _Compiled:
    dialect = connection.dialect
    compiled = statement.compile(dialect=dialect)
    kinds = {name: b.type.dialect_impl(dialect).bind_processor(dialect) for b, name in compiled.bind_names.items()}
    required = {name for bind, name in compiled.bind_names.items() if bind.required}
    given = {
        name: value if (convert := kinds[name]) is None else convert(value)
        for name, value in compiled.params.items()
        if name not in required
    }
    reads = [c.type.dialect_impl(dialect).result_processor(dialect, None) for c in statement.exported_columns]
    return _Compiled(
        str(compiled),
        given,
        tuple((name, convert) for name in sorted(required) if (convert := kinds[name]) is not None),
        tuple(compiled.positiontup) if compiled.positional else None,
        tuple((place, convert) for place, convert in enumerate(reads) if convert is not None),
    )


def _wrapped(connection: Connection, cursor: Any, text: str, values: Any, error: Any) -> exc.StatementError:
    """The error as SQLAlchemy gives it; a connection that broke is not used again."""
    dialect = connection.dialect
    is_broken = dialect.is_disconnect(error, connection.connection.dbapi_connection, cursor)
    wrapped: exc.StatementError = exc.DBAPIError.instance(
        text, values, error, dialect.loaded_dbapi.Error, connection_invalidated=is_broken, dialect=dialect
    )
    if is_broken:
        connection.invalidate(error)
    return wrapped
