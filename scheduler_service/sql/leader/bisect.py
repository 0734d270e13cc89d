"""Find by bisection the single row that a database will never take, so that it does not block the others.

Promises: every item that can be written is written, in order; each one that cannot is passed to `quarantine` alone.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

from itinerary.protocol.errors import RowRefused
from scheduler_service.sql.database import savepoint


class Joinable(Protocol):
    """The result of two halves, joined by `|`."""

    def __or__(self, other: Any, /) -> Any:
        """The joined result."""


T = TypeVar("T")
R = TypeVar("R", bound=Joinable)


def write_bisecting(
    connection: Connection,
    items: Sequence[T],
    write: Callable[[Sequence[T]], R],
    quarantine: Callable[[T, RowRefused], R],
) -> R:
    """Write all items, bisecting refused batches; return the joined results of `write` and `quarantine`."""
    if not items:
        return write(items)
    try:
        with savepoint(connection):
            return write(items)
    except RowRefused as refused:
        if len(items) == 1:
            return quarantine(items[0], refused)
        middle = len(items) // 2
        first = write_bisecting(connection, items[:middle], write, quarantine)
        both: R = first | write_bisecting(connection, items[middle:], write, quarantine)
        return both
