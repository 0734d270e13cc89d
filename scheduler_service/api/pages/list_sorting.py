"""The order of a list in its address: links of the columns' headings, and the same as a choice. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar
from urllib.parse import urlencode

from scheduler_service.ports.lists import Order

S = TypeVar("S", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Sort(Generic[S]):
    """A value that sorts, the column that shows it, its name, and the names of both directions."""

    by: S
    column: str
    name: str
    rising: str
    falling: str
    first_falls: bool = True


@dataclass(frozen=True, slots=True)
class Heading:
    """A column's heading: the address that sorts by it, and the direction if it does now."""

    link: str
    direction: str | None


@dataclass(frozen=True, slots=True)
class Sorting(Generic[S]):
    """The order of a list, and how a reader chooses another."""

    order: Order[S]
    usual: Order[S]
    sorts: Sequence[Sort[S]]

    @property
    def column(self) -> str:
        """Return the column that shows what sorts the list."""
        return next(sort.column for sort in self.sorts if sort.by is self.order.by)

    def pairs(self) -> list[tuple[str, str]]:
        """Return the address's parameters for this order."""
        return self._pairs(self.order)

    def choices(self) -> list[tuple[str, str, bool]]:
        """Return each order: its text for the address, its name, whether it is this one."""
        orders = [
            (Order(sort.by, falls), f"{sort.name}, {sort.falling if falls else sort.rising}")
            for sort in self.sorts
            for falls in (sort.first_falls, not sort.first_falls)
        ]
        return [("" if order == self.usual else order.text, name, order == self.order) for order, name in orders]

    def headings(self, address: str, here: Sequence[tuple[str, str]]) -> Mapping[str, Heading]:
        """Return the heading of each column that sorts, by the column; `here` are the other parameters."""
        found: dict[str, Heading] = {}
        for sort in self.sorts:
            # Of two that one column shows, the first, unless the other sorts the list now.
            if sort.column not in found or sort.by is self.order.by:
                found[sort.column] = self._heading(sort, address, here)
        return found

    def _heading(self, sort: Sort[S], address: str, here: Sequence[tuple[str, str]]) -> Heading:
        now = self.order if self.order.by is sort.by else None
        following = Order(sort.by, sort.first_falls if now is None else not now.descending)
        asked = urlencode([*here, *self._pairs(following)])
        return Heading(
            f"{address}?{asked}" if asked else address,
            None if now is None else "descending" if now.descending else "ascending",
        )

    def _pairs(self, order: Order[S]) -> list[tuple[str, str]]:
        return [] if order == self.usual else [("sort", order.text)]
