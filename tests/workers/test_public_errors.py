"""The public errors go whole through pickle and copy: to another process, into a Celery result, into a deep copy."""

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

import itinerary
from itinerary import (
    ApiError,
    BadValue,
    BadValues,
    Conflict,
    ItineraryError,
    NoAnswer,
    RunCancelled,
    RunFailed,
    WaitTimeout,
)
from itinerary.client.results import Run
from itinerary.protocol import errors

RUN = Run.of({"run_id": "adhoc_1", "state": "failed", "error": {"type": "KeyError", "message": "x", "new": 1}})
PROBLEM = {"detail": "not accepted", "errors": [{"loc": ["priority"], "msg": "priority: 11 is not accepted"}]}


class OfAProgram(ApiError):
    """With arguments of its own."""

    def __init__(self, *, order: int) -> None:
        super().__init__(409, PROBLEM)
        self.order = order


ERRORS: list[Exception] = [
    ApiError(422, PROBLEM),
    BadValue("priority", 11, "give a whole number from 0 to 9"),
    BadValues([BadValue("task", None, "this field is required"), errors.TooLarge("args", "9 bytes", "give less")]),
    Conflict("job a exists", "job-exists"),
    ItineraryError("anything"),
    NoAnswer("no answer"),
    RunCancelled("stopped"),
    RunFailed(RUN),
    WaitTimeout("run adhoc_1 is still running after 60 s"),
    errors.IllegalTransition("adhoc_1", "completed", "started"),
    errors.StaleVersion("job a was changed"),
    OfAProgram(order=17),
]
WAYS: dict[str, Callable[[Any], Any]] = {
    **{f"pickle {n}": lambda it, n=n: pickle.loads(pickle.dumps(it, n)) for n in range(pickle.HIGHEST_PROTOCOL + 1)},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def whole(value: Any) -> Any:
    """All that an error or a result holds, comparable."""
    if isinstance(value, tuple):
        return [whole(one) for one in value]
    if isinstance(value, BaseException | Run):
        fields = {name: whole(one) for name, one in vars(value).items()}
        return type(value), str(value), getattr(value, "args", None), fields
    return value if isinstance(value, str | int | dict | None) else repr(value)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_with_every_field(error: Exception) -> None:
    error.__dict__["__notes__"] = ["of order 17"]
    for name, way in WAYS.items():
        there = way(error)
        assert there is not error
        assert whole(there) == whole(error), name


@pytest.mark.parametrize("value", [threading.Lock(), lambda: None], ids=["lock", "function"])
def test_a_value_that_cannot_go_to_another_process_goes_by_its_repr(value: Any) -> None:
    there = pickle.loads(pickle.dumps(BadValues([BadValue("args.0", value, "give JSON")])))
    assert there.errors[0].value == repr(value)
    assert str(there) == str(BadValue("args.0", value, "give JSON"))


def test_the_run_of_an_error_keeps_its_types() -> None:
    failed = pickle.loads(pickle.dumps(RunFailed(RUN)))
    assert (failed.run.error.message, failed.run["error"]["new"], failed.run.state) == ("x", 1, "failed")


def test_every_public_error_is_among_them() -> None:
    public = [getattr(itinerary, name) for name in itinerary.__all__]
    assert {one for one in public if isinstance(one, type) and issubclass(one, Exception)} <= {*map(type, ERRORS)}
