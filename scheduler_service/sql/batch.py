"""Rows passed to a statement as one JSON text.

Promises that a statement's text and its number of parameters do not depend on the number of rows, on either database.
So it is compiled and prepared once. Raises RowRefused for a row that cannot be text in a database.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Integer,
    Subquery,
    Text,
    bindparam,
    case,
    cast,
    false,
    func,
    literal_column,
    select,
    type_coerce,
)
from sqlalchemy import column as named
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

from itinerary.protocol.batches import batched
from itinerary.protocol.errors import RowRefused
from scheduler_service.sql.column_types import FIRST_INSTANT, LAST_INSTANT, InstantColumn, Payload
from scheduler_service.sql.dialect import Dialect

PARAMETER: Final = "batch"
MAX_ROWS: Final = 5_000
MAX_BYTES: Final = 16 * 1024 * 1024
# Dumping rows together costs a tenth of dumping them one by one; this many of the largest payloads still fit in memory.
_AT_ONCE: Final = 100


class Batch:
    """The columns of the rows to pass; a statement selects from `rows` and is executed with each of `chunks`.

    A JSON column is given as JSON text already dumped; instants as integers.
    """

    def __init__(self, **columns: TypeEngine[Any] | type[TypeEngine[Any]]) -> None:
        self._columns = {name: kind() if isinstance(kind, type) else kind for name, kind in columns.items()}
        kinds = self._columns.values()
        self._instants = [place for place, kind in enumerate(kinds) if isinstance(kind, InstantColumn)]

    def rows(self, dialect: Dialect) -> Subquery:
        """A subquery named `batch` with one row for each row given."""
        source, value = _POSTGRES if dialect is Dialect.POSTGRESQL else _SQLITE
        columns = [value(place, kind).label(name) for place, (name, kind) in enumerate(self._columns.items())]
        return select(*columns).select_from(source()).subquery(PARAMETER)

    def chunks(self, rows: Iterable[Sequence[Any]]) -> Iterator[dict[str, str]]:
        """Yield the parameters of one execution after the other, in order, each of bounded size."""
        texts: list[bytes] = []
        size = number = 0
        for part in batched(rows, _AT_ONCE):
            self._check_instants(part)
            for count, text in _dumped(part):
                if texts and (number + count > MAX_ROWS or size + len(text) > MAX_BYTES):
                    yield _parameters(texts)
                    texts, size, number = [], 0, 0
                texts.append(text)
                size += len(text)
                number += count
        if texts:
            yield _parameters(texts)

    def _check_instants(self, rows: Sequence[Sequence[Any]]) -> None:
        times = [time for place in self._instants for row in rows if (time := row[place])]
        if times and (min(times) < FIRST_INSTANT or max(times) > LAST_INSTANT):
            raise RowRefused("not storable: a time outside the years 1 to 9999")


def _dumped(rows: Sequence[Sequence[Any]]) -> Iterator[tuple[int, bytes]]:
    """Yield numbers of rows with their JSON text."""
    try:
        text = orjson.dumps(rows)
    except TypeError as error:
        raise RowRefused(f"not storable: {error}") from error
    if b"\\u0000" in text and any(isinstance(value, str) and "\x00" in value for row in rows for value in row):
        raise RowRefused("not storable: a text with a NUL character")
    if len(text) > MAX_BYTES and len(rows) > 1:
        half = len(rows) // 2
        yield from _dumped(rows[:half])
        yield from _dumped(rows[half:])
    else:
        yield len(rows), text


def _parameters(texts: Sequence[bytes]) -> dict[str, str]:
    rows = texts[0] if len(texts) == 1 else b"".join((b"[", b",".join(text[1:-1] for text in texts), b"]"))
    return {PARAMETER: rows.decode()}


def judged(found_by: ColumnElement[Any], guard: ColumnElement[bool]) -> ColumnElement[bool]:
    """Wrap the guard in CASE so that the planner uses the key lookup, not the guard, as access path.

    Planners underestimate how many rows pass a guard until the statistics know of a million new ones. They would then
    read all these rows instead of the few named. A condition on both tables is evaluated on the joined rows.
    """
    return case((found_by.is_not(None), guard), else_=false())


def _sqlite_source() -> Any:
    return func.json_each(bindparam(PARAMETER, type_=Text)).table_valued("value", name="element")


def _sqlite_value(place: int, kind: TypeEngine[Any]) -> ColumnElement[Any]:
    return type_coerce(func.json_extract(literal_column("element.value"), literal_column(f"'$[{place}]'")), kind)


def _postgres_source() -> Any:
    elements = func.jsonb_array_elements(cast(bindparam(PARAMETER, type_=Text), JSONB))
    return elements.table_valued(named("value", JSONB), name="element")


def _postgres_value(place: int, kind: TypeEngine[Any]) -> ColumnElement[Any]:
    value = f"(element.value ->> {place})"
    match kind:
        case InstantColumn():  # two exact steps: a single product loses microseconds beyond the year 2255
            return literal_column(
                f"(TIMESTAMPTZ 'epoch' + {value}::bigint / 1000000 * INTERVAL '1 second'"
                f" + {value}::bigint % 1000000 * INTERVAL '1 microsecond')",
                kind,
            )
        case Integer() | BigInteger() | Boolean() | Payload():
            return cast(literal_column(value, Text), kind)
        case _:
            return literal_column(value, kind)


_SQLITE: Final = (_sqlite_source, _sqlite_value)
_POSTGRES: Final = (_postgres_source, _postgres_value)
