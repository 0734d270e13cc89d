"""One cache of compiled SQL for all SQLite engines of a test process.

Each engine keeps a cache of its own, and nearly every test opens new ones: compiling the same statements again was a
seventh of what the tests of the API used. All these engines have a dialect of the same options; engines of PostgreSQL
are left alone.
"""

from typing import Any

from sqlalchemy import Connection, Dialect, Engine, event
from sqlalchemy.util import LRUCache

_cache: LRUCache[Any, Any] = LRUCache(2_000)
_first: list[Dialect] = []


def share_compiled_statements() -> None:
    """From now on, connections of all SQLite engines of this process compile each statement once."""
    if not event.contains(Engine, "engine_connect", _share):
        event.listen(Engine, "engine_connect", _share)


def _share(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        if not _first:
            _first.append(connection.dialect)
        connection.dialect = _first[0]  # the cache tells dialects apart by identity
        connection.execution_options(compiled_cache=_cache)
