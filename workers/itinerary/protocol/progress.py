"""How far a task has come: its values, and their form in heartbeats and in the reports of ends. Pure.

Promises that progress of another release that this one cannot read is left out. It never fails the heartbeat, which
proves first of all that attempts are alive, or the report of an end.
"""

from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any, Final, NamedTuple

from itinerary.protocol.errors import BadValue

PROGRESS_FIELD: Final = "progress"
LONGEST_UNIT: Final = 20
# Above it a browser no longer counts exactly.
_MOST: Final = 2**53
_NUMBER: Final = "give a number from 0 to 2**53"


class Progress(NamedTuple):
    """`done` of `total` (None: not known), counted in `unit`."""

    done: int | float
    total: int | float | None = None
    unit: str = ""


def checked(done: Any, total: Any = None, unit: Any = "") -> Progress:
    """The progress that a task gives; BadValue names the argument."""
    if type(done) is not int or not 0 <= done <= _MOST:
        done = _number(done, "done")
    if total is not None and (type(total) is not int or not 0 <= total <= _MOST):
        total = _number(total, "total")
    if type(unit) is not str or len(unit) > LONGEST_UNIT or not unit.isprintable():
        raise BadValue("unit", unit, f"give at most {LONGEST_UNIT} printable characters, such as rows")
    return Progress(done, total, unit)


def listed(running: Sequence[str], of: dict[str, Progress]) -> list[list[Any]]:
    """The progress of these attempts for a heartbeat that lists them: each by its position."""
    found = ((place, of.get(task_id)) for place, task_id in enumerate(running))
    return [[place, *progress] for place, progress in found if progress is not None]


def read_listed(value: Any, count: int) -> Iterator[tuple[int, Progress]]:
    """The positions, below `count`, and the progress of what a heartbeat lists."""
    for one in value if isinstance(value, list) else ():
        if isinstance(one, list) and len(one) >= 4 and type(one[0]) is int and 0 <= one[0] < count:
            try:
                yield one[0], checked(*one[1:4])
            except BadValue:
                continue


def read_last(value: Any) -> Progress | None:
    """The progress that stands in the report of an end, or in a row; None for what is none."""
    if isinstance(value, list) and len(value) >= 3:
        try:
            return checked(*value[:3])
        except BadValue:
            pass
    return None


def _number(value: Any, field: str) -> int | float:
    """A number of another type, numpy's included, as Python's own."""
    if isinstance(value, Real) and not isinstance(value, bool):
        plain = int(value) if isinstance(value, Integral) else float(value)
        if 0 <= plain <= _MOST:
            return plain
    raise BadValue(field, value, _NUMBER)
