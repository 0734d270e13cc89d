"""Column types for instants and payloads, and the limits of the values that a database can keep.

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

# The years 1 to 9999: some databases would store a later time, and then no driver could read the row.
FIRST_INSTANT: Final = from_datetime(datetime.min.replace(tzinfo=UTC))
LAST_INSTANT: Final = from_datetime(datetime.max.replace(tzinfo=UTC))


class InstantColumn(TypeDecorator[int]):
    """An Instant: timestamptz on PostgreSQL, BIGINT microseconds on SQLite; always an int in Python."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the column type of this database."""
        native = postgresql.TIMESTAMP(timezone=True) if dialect.name == "postgresql" else BigInteger()
        return dialect.type_descriptor(native)

    def process_bind_param(self, value: Instant | None, dialect: Dialect) -> Any:
        """Convert the value for the driver."""
        return to_datetime(value) if value is not None and dialect.name == "postgresql" else value

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Instant | None] | None:
        """Choose the conversion for the core; called once per column, not once per value."""
        return _instant if dialect.name == "postgresql" else None


def _instant(value: datetime | None) -> Instant | None:
    return None if value is None else from_datetime(value)


class Payload(TypeDecorator[Any]):
    """Plain JSON values: `json` on PostgreSQL, since jsonb makes 1e16 an integer; TEXT on SQLite, likewise."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the column type of this database."""
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else JSON(none_as_null=True))

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Convert the value for the driver."""
        return dump_json(value) if value is not None and dialect.name == "sqlite" else value

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        """Choose the conversion for the core; PostgreSQL's driver has already parsed the value."""
        return load_json if dialect.name == "sqlite" else None


class PayloadText(TypeDecorator[Any]):
    """A Payload cast to text: in large reads, the driver's own parsing takes longer than all other columns."""

    impl = Text
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """Choose the conversion for the core."""
        return load_json


_JSON: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def dump_json(value: Any) -> str:
    """JSON that every database can keep: plain ASCII, no NaN; RowRefused for a value that has no such JSON."""
    try:
        return _JSON.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise RowRefused(f"not storable: {str(error)[:200]}") from error


def load_json(text: str | bytes | None) -> Any:
    """Parse the output of `dump_json`; None if there is none, since most runs have no arguments."""
    match text:
        case "[]" | b"[]":
            return []
        case "{}" | b"{}":
            return {}
        case None:
            return None
        case _:
            return json.loads(text)
