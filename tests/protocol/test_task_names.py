"""The names of tasks in a heartbeat: their bound, and what is none."""

from typing import Any

import pytest

from itinerary.protocol.task_names import TaskNames, bounded, read_names


def test_names_come_back_sorted() -> None:
    names = bounded({"b.task", "a.task"})
    assert names == TaskNames(("a.task", "b.task"), complete=True)
    assert read_names([*map(list, names[:1]), names[1], "of a later release"]) == names


def test_a_task_is_unknown_once_all_have_said_what_they_know() -> None:
    assert TaskNames(("a",), complete=True).warning("a") is None
    assert TaskNames(("a",), complete=False).warning("b") is None
    assert "no living worker knows the task b" in (TaskNames(("a",), complete=True).warning("b") or "")


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        ([f"t{n:04}" for n in range(1_001)], 1_000),
        (["\u20ac" * 255 + str(n) for n in range(3)], 0),
        (["x" * 250 + f"{n:03}" for n in range(300)], 259),
    ],
    ids=["many", "too long", "together too long"],
)
def test_what_does_not_fit_is_left_out_and_said(names: list[str], kept: int) -> None:
    found = bounded(names)
    assert found == TaskNames(tuple(names[:kept]), complete=False)
    assert read_names([list(found.names), found.complete]) == found


@pytest.mark.parametrize("value", [None, {}, "a", [], [["a"]], ["a", True]])
def test_what_is_no_list_of_names_is_none(value: Any) -> None:
    assert read_names(value) is None


def test_a_name_that_is_none_makes_the_list_incomplete() -> None:
    assert read_names([["a", 7, "x" * 256], True]) == TaskNames(("a",), complete=False)
