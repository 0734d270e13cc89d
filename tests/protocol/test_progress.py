"""What `current_run().progress` takes, how it is sent, and what it costs."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy
import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.progress import Progress, checked, listed, read_last, read_listed
from itinerary.worker.current import CurrentRun
from tests.support.work import calls_made


def run_of(shown: list[Any]) -> CurrentRun:
    return CurrentRun("job_x", None, 1, *[None] * 2, lambda: False, shown.append)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ((0, 0), Progress(0, 0)),
        ((5,), Progress(5)),
        ((12, 10, "rows"), Progress(12, 10, "rows")),
        ((0.25, 1), Progress(0.25, 1)),
        ((numpy.int64(3), numpy.float32(4.0)), Progress(3, 4.0)),
        ((Fraction(1, 2), 1), Progress(0.5, 1)),
    ],
)
def test_numbers_of_every_type_are_kept_as_plain_ones(given: tuple[Any, ...], kept: Progress) -> None:
    found = checked(*given)
    assert found == kept
    assert [type(one) for one in found] == [type(one) for one in kept]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((-1,), "done: -1 is not accepted; give a number from 0 to 2**53"),
        ((None,), "done: give a number from 0 to 2**53"),
        (("12",), "done: '12' is not accepted; give a number from 0 to 2**53"),
        ((True,), "done: True is not accepted; give a number from 0 to 2**53"),
        ((float("nan"),), "done: nan is not accepted; give a number from 0 to 2**53"),
        ((Decimal(1),), "done: Decimal('1') is not accepted; give a number from 0 to 2**53"),
        ((2**53 + 1,), "done: 9007199254740993 is not accepted; give a number from 0 to 2**53"),
        ((1, -5), "total: -5 is not accepted; give a number from 0 to 2**53"),
        ((1, float("inf")), "total: inf is not accepted; give a number from 0 to 2**53"),
        ((1, 2, "x" * 21), "unit: 'xxxxxxxxxxxxxxxxxxxxx' is not accepted; give at most 20 printable characters, "
                           "such as rows"),
        ((1, 2, "a\nb"), "unit: 'a\\nb' is not accepted; give at most 20 printable characters, such as rows"),
        ((1, 2, None), "unit: give at most 20 printable characters, such as rows"),
    ],
)  # fmt: skip
def test_what_is_no_progress_is_refused_by_name(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(BadValue) as refusal:
        checked(*given)
    assert str(refusal.value) == message


def test_what_is_listed_comes_back_by_its_place() -> None:
    of = {"b~1": Progress(1, 2, "ü"), "gone~1": Progress(9)}
    sent = listed(["a~1", "b~1"], of)
    assert sent == [[1, 1, 2, "ü"]]
    assert list(read_listed(sent, 2)) == [(1, Progress(1, 2, "ü"))]
    assert list(read_listed(sent, 1)) == []


@pytest.mark.parametrize("odd", [None, {}, [], [1, 2], ["1", 2, ""], [1, 2, "x" * 21], [True, None, ""]])
def test_what_is_no_progress_of_an_end_is_left_out(odd: Any) -> None:
    assert read_last(odd) is None
    assert read_last([412, 1000, "rows", "of a later release"]) == Progress(412, 1000, "rows")


def test_a_run_is_shown_at_its_first_progress_and_gives_its_latest() -> None:
    shown: list[Any] = []
    run = run_of(shown)
    for done in range(3):
        run.progress(done, 10)
    (read,) = shown
    assert read() == Progress(2, 10)


def test_a_refused_progress_shows_nothing() -> None:
    shown: list[Any] = []
    with pytest.raises(BadValue):
        run_of(shown).progress(-1)
    assert shown == []


def test_a_loop_can_call_it_for_each_row() -> None:
    run = run_of([])
    assert calls_made(lambda: run.progress(412_000, 1_000_000, "rows")) < 15
