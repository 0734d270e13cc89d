"""Two at a time, told in order; an error of the second thread is an error of the whole."""

import threading

import pytest

from scheduler_service.loops.pipelined import side_by_side


def test_two_are_in_hand_at_once_and_come_back_in_order() -> None:
    both = threading.Barrier(2)

    def work(item: int) -> int:
        both.wait(60)  # never passed by one alone
        return item

    assert list(side_by_side(work, [1, 2, 3, 4])) == [1, 2, 3, 4]


def test_one_is_worked_out_here() -> None:
    assert list(side_by_side(lambda _: threading.current_thread(), [1])) == [threading.current_thread()]


def test_an_error_beside_is_raised_in_its_place() -> None:
    def work(item: int) -> int:
        return 12 // item

    answers = side_by_side(work, [1, 0, 2])
    assert next(answers) == 12
    with pytest.raises(ZeroDivisionError):
        next(answers)
