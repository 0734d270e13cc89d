"""How instants and payloads are kept in a column, and what a database could keep at all.

Promises that core code only ever sees instants as integers, and that a payload comes back as it was given.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import JSON, BigInteger, Dialect, Text
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeDecorator, TypeEngine

from itinerary.protocol.errors import RowRefused
from itinerary.protocol.instants import Instant, from_datetime, to_datetime

# The years 1 to 9999: a later time could be written to some databases, and then no driver could read the row.
FIRST_INSTANT: Final = from_datetime(datetime.min.replace(tzinfo=UTC))
LAST_INSTANT: Final = from_datetime(datetime.max.replace(tzinfo=UTC))


class InstantColumn(TypeDecorator[int]):
    """An Instant: timestamptz on PostgreSQL, BIGINT microseconds on SQLite; always an int in Python."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The column type of this database."""
        native = postgresql.TIMESTAMP(timezone=True) if dialect.name == "postgresql" else BigInteger()
        return dialect.type_descriptor(native)

    def process_bind_param(self, value: Instant | None, dialect: Dialect) -> Any:
        """What the driver takes."""
        return to_datetime(value) if value is not None and dialect.name == "postgresql" else value

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Instant | None] | None:
        """How the core sees it; called once a column, not once a value."""
        return _instant if dialect.name == "postgresql" else None


def _instant(value: datetime | None) -> Instant | None:
    return None if value is None else from_datetime(value)


class Payload(TypeDecorator[Any]):
    """Plain JSON values: `json` on PostgreSQL, since jsonb makes 1e16 an integer; TEXT on SQLite, likewise."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The column type of this database."""
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else JSON(none_as_null=True))

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """What the driver takes."""
        return dump_json(value) if value is not None and dialect.name == "sqlite" else value

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        """How the core sees it; PostgreSQL's driver has read it already."""
        return load_json if dialect.name == "sqlite" else None


class PayloadText(TypeDecorator[Any]):
    """A Payload that was cast: where many are read, the driver's own reading takes longer than all other columns."""

    impl = Text
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """How the core sees it."""
        return load_json


_JSON: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def dump_json(value: Any) -> str:
    """JSON that every database can keep: plain ASCII, no NaN; RowRefused for a value that has none."""
    try:
        return _JSON.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise RowRefused(f"not storable: {str(error)[:200]}") from error


def load_json(text: str | bytes | None) -> Any:
    """What `dump_json` wrote, None where nothing was; most runs have no arguments."""
    match text:
        case "[]" | b"[]":
            return []
        case "{}" | b"{}":
            return {}
        case None:
            return None
        case _:
            return json.loads(text)
