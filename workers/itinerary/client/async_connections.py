"""The connections of asyncio that `enqueue_in_async` takes, as `itinerary.client.connections` the blocking ones.

Imports a driver only if it was given one of its connections.
"""

from dataclasses import dataclass
from typing import Any, Final

from itinerary.client.connections import executed_by_sqlalchemy, filled, home, is_for_sqlalchemy, table
from itinerary.client.run_inserts import Insert, Query
from itinerary.protocol.errors import BadValue

_ALLOWED: Final = (
    "give a connection of asyncpg, an AsyncConnection of psycopg, or an AsyncConnection or AsyncSession of SQLAlchemy, "
    "to Itinerary's PostgreSQL database; with a blocking connection use enqueue_in"
)


@dataclass(frozen=True, slots=True)
class Asyncpg:
    """A connection of asyncpg."""

    connection: Any
    runs: str

    async def answer(self, query: Query) -> Any:
        """The number of rows it inserted, or the rows it read."""
        # As texts, since the program may have given this connection codecs for JSON and times.
        statement, values = filled(query, self.runs, lambda name, place: f"CAST(${place} AS text)")
        texts = [None if value is None else str(value) for value in values.values()]
        if isinstance(query, Insert):
            status: str = await self.connection.execute(statement, *texts)  # "INSERT 0 3"
            return int(status.rpartition(" ")[2])
        return [tuple(row) for row in await self.connection.fetch(statement, *texts)]


@dataclass(frozen=True, slots=True)
class AsyncPsycopg:
    """An AsyncConnection of psycopg."""

    connection: Any
    runs: str

    async def answer(self, query: Query) -> Any:
        """As `Asyncpg.answer`."""
        from psycopg.rows import tuple_row

        statement, values = filled(query, self.runs, lambda name, _: f"%({name})s")
        async with self.connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(statement, values, prepare=False)
            return int(cursor.rowcount) if isinstance(query, Insert) else await cursor.fetchall()


@dataclass(frozen=True, slots=True)
class AsyncSqlAlchemy:
    """An AsyncConnection of SQLAlchemy with any driver."""

    connection: Any
    runs: str

    async def answer(self, query: Query) -> Any:
        """As `Asyncpg.answer`."""
        return await self.connection.run_sync(executed_by_sqlalchemy, query, self.runs)


AsyncTarget = Asyncpg | AsyncPsycopg | AsyncSqlAlchemy


async def async_target_of(given: Any, schema: str | None) -> AsyncTarget:
    """The caller's connection or session; BadValue if it cannot be used so."""
    runs = table(schema)
    kinds = type(given).__mro__
    if any(kind.__module__.startswith("sqlalchemy.ext.asyncio") for kind in kinds):
        connection = await given.connection() if hasattr(given, "get_bind") else given
        if is_for_sqlalchemy(connection):
            return AsyncSqlAlchemy(connection, runs)
    # A pool of asyncpg has the methods of a connection, but no transaction.
    if any(home(kind) == "asyncpg" for kind in kinds) and hasattr(given, "is_in_transaction"):
        return Asyncpg(given, runs)
    if any((home(kind), kind.__name__) == ("psycopg", "AsyncConnection") for kind in kinds):
        return AsyncPsycopg(given, runs)
    shown = f"{type(given).__module__}.{type(given).__qualname__}"
    raise BadValue("connection_or_session", shown, _ALLOWED)
