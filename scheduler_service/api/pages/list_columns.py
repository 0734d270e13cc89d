"""The columns of a list that a reader chose, and the one that sorts it, kept in the address. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from itinerary.protocol.errors import BadValue


@dataclass(frozen=True, slots=True)
class Columns:
    """All columns with their names, and those shown; `chosen`: other than the list's own; `added`: by the order."""

    names: Mapping[str, str]
    wanted: tuple[str, ...]
    chosen: bool
    added: str | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """Return the names of the columns shown."""
        return tuple(name for name in self.names if name in self.wanted or name == self.added)

    def __contains__(self, name: object) -> bool:
        return name in self.shown

    def pairs(self) -> list[tuple[str, str]]:
        """Return the address's parameters for this choice."""
        return [("col", name) for name in self.wanted] if self.chosen else []


def read_columns(given: Sequence[str], names: Mapping[str, str], usual: Sequence[str]) -> Columns:
    """Read the choice; BadValue for a column that is not there."""
    for name in given:
        if name not in names:
            raise BadValue("col", name, f"choose from {', '.join(names)}")
    shown = tuple(name for name in names if name in (given or usual))
    return Columns(names, shown, bool(given) and set(shown) != set(usual))
