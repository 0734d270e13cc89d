"""Batches: many rows in one text, in order, and never more in memory than a statement bears."""

import json
from collections.abc import Iterator

import pytest
from sqlalchemy import Integer, Text

from itinerary.protocol.errors import RowRefused
from scheduler_service.core.leader.commands import Dispatch
from scheduler_service.sql.batch import MAX_BYTES, MAX_ROWS, PARAMETER, Batch

_NAMED = Batch(name=Text, number=Integer)


def rows_of(chunks: list[dict[str, str]]) -> list[list[list[object]]]:
    return [json.loads(chunk[PARAMETER]) for chunk in chunks]


@pytest.mark.parametrize("number", [0, 1, 99, 100, 101, MAX_ROWS, MAX_ROWS + 1, 3 * MAX_ROWS])
def test_small_rows_go_as_many_at_once_as_a_statement_takes(number: int) -> None:
    chunks = rows_of(list(_NAMED.chunks((str(n), n) for n in range(number))))
    assert [len(chunk) for chunk in chunks] == [min(MAX_ROWS, number - n) for n in range(0, number, MAX_ROWS)]
    assert [row for chunk in chunks for row in chunk] == [[str(n), n] for n in range(number)]


@pytest.mark.slow
def test_large_rows_are_read_as_they_go_and_come_in_order() -> None:
    taken = []

    def rows() -> Iterator[tuple[str, int]]:
        for n in range(1_000):
            taken.append(n)
            yield (" " * 250_000 if n % 300 else " " * (MAX_BYTES + n), n)

    numbers: list[object] = []
    for chunk in _NAMED.chunks(rows()):
        found = json.loads(chunk[PARAMETER])
        numbers += [number for _, number in found]
        assert len(chunk[PARAMETER]) <= MAX_BYTES + 1_000 or len(found) == 1
        assert len(taken) - len(numbers) <= 200
    assert numbers == list(range(1_000))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("a\x00b", 1), "a text with a NUL character"),
        ((object(), 1), "not JSON serializable"),
        (("a", 2**64), "Integer exceeds 64-bit range"),
        (("\ud800", 1), "surrogates not allowed"),
        (Dispatch("a", 1, 1), "not JSON serializable"),
    ],
)
@pytest.mark.parametrize("before", [0, 150])
def test_a_row_that_no_database_can_keep_is_refused_wherever_it_is(
    row: tuple[object, ...], said: str, before: int
) -> None:
    with pytest.raises(RowRefused, match=said):
        list(_NAMED.chunks([*([("a", 1)] * before), row, ("b", 2)]))


def test_text_that_only_looks_like_a_nul_is_kept() -> None:
    assert rows_of(list(_NAMED.chunks([("\\u0000", 1)]))) == [[["\\u0000", 1]]]
