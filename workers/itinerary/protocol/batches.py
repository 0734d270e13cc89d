"""Batches of bounded size, as `itertools.batched` of Python 3.12 makes them."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    """The items in tuples of `size`, the last one maybe shorter."""
    rest = iter(items)
    while batch := tuple(islice(rest, size)):
        yield batch
