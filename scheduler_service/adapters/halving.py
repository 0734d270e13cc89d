"""Finding the one row that a database will never take, so that it does not keep the others out.

Promises: every item that can be written is written, in order; each that cannot is handed to `set_aside` alone.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlalchemy import Connection

from scheduler_service.adapters.database import savepoint
from scheduler_service.core.errors import RowRefused

T = TypeVar("T")


def write_halving(
    connection: Connection,
    items: Sequence[T],
    write: Callable[[Sequence[T]], set[str]],
    set_aside: Callable[[T, RowRefused], set[str]],
) -> set[str]:
    """What `write` (and `set_aside`) return for all items together; refused batches are undone and halved."""
    if not items:
        return set()
    try:
        with savepoint(connection):
            return write(items)
    except RowRefused as refused:
        if len(items) == 1:
            return set_aside(items[0], refused)
        middle = len(items) // 2
        first = write_halving(connection, items[:middle], write, set_aside)
        return first | write_halving(connection, items[middle:], write, set_aside)
