"""The tasks that a worker knows: their names in one of its heartbeats a minute. Pure.

Promises that they fit into one entry of the inbox, and that what another release sends and this one cannot read is left
out. Never fails a heartbeat.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

TASKS_FIELD: Final = "tasks"
LONGEST_NAME: Final = 255
_MOST: Final = 1_000
# Each may take six characters of JSON, and an entry half a million.
_CHARACTERS: Final = 64 * 1024


class TaskNames(NamedTuple):
    """The names, sorted; `complete`: the worker knows no other."""

    names: tuple[str, ...]
    complete: bool

    def warning(self, task: str) -> str | None:
        """Return a sentence if no living worker knows the task; None too while one may know more than it said."""
        if not self.complete or task in self.names:
            return None
        return f"no living worker knows the task {task}: runs fail until one does; see `itinerary tasks`"


def bounded(names: Iterable[str]) -> TaskNames:
    """The first of these names that fit."""
    known, kept, size = sorted(names), list[str](), 0
    for name in known:
        size += len(name)
        if len(kept) == _MOST or size > _CHARACTERS:
            break
        if len(name) <= LONGEST_NAME:
            kept.append(name)
    return TaskNames(tuple(kept), len(kept) == len(known))


def read_names(value: Any) -> TaskNames | None:
    """The names that a heartbeat has; None where it has none."""
    if not isinstance(value, list) or len(value) < 2 or not isinstance(value[0], list):
        return None
    names = [name for name in value[0][:_MOST] if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME]
    return TaskNames(tuple(names), value[1] is True and len(names) == len(value[0]))
