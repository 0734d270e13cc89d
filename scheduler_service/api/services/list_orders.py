"""The order of a list as a parameter: the name of a value, with `-` before it for the reverse. Pure."""

from enum import StrEnum
from typing import TypeVar

from itinerary.protocol.errors import BadValue
from scheduler_service.ports.lists import Order

S = TypeVar("S", bound=StrEnum)


def read_order(text: str | None, usual: Order[S]) -> Order[S]:
    """Read the order; the list's own one if none is given; BadValue for a name that is not known."""
    if text is None:
        return usual
    sorts = type(usual.by)
    for order in (Order(sort, descending) for sort in sorts for descending in (False, True)):
        if order.text == text:
            return order
    raise BadValue("sort", text, f"sort by {', '.join(sorts)}, or by one of these with - before it for the reverse")


def names_of(sorts: type[StrEnum]) -> list[str]:
    """Return the texts of all orders."""
    return [Order(sort, descending).text for sort in sorts for descending in (False, True)]
