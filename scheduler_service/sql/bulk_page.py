"""The result of one page of a bulk operation. Values only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

PAGE_ACTION: Final = "bulk.page"
"""The audit entries from which an undo reads what each page changed."""
END_ACTION: Final = "bulk.end"


@dataclass(frozen=True, slots=True)
class Done:
    """`place`: where the next page begins, None after the last. `changed`: what an undo needs, as JSON.

    `stopping`, `created`, `moved` and `jobs` are ids that the leader may be told of.
    """

    place: str | None
    seen: int
    counts: Mapping[str, int]
    changed: Sequence[Any] = ()
    stopping: Sequence[str] = field(default=())
    created: Sequence[str] = field(default=())
    moved: Sequence[str] = field(default=())
    jobs: Sequence[str] = field(default=())
