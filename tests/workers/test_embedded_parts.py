"""The worker inside a program: what stands for a plain function, and which app runs it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from celery import Celery

from itinerary.protocol.errors import BadValue
from itinerary.worker.celery_app import app_of_environment
from itinerary.worker.current import CurrentRun, running
from itinerary.worker.embedded import app_for


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    app_of_environment.cache_clear()
    monkeypatch.setenv("ITINERARY_REDIS_URL", "redis://127.0.0.1:1/0")
    yield
    app_of_environment.cache_clear()


def test_functions_become_tasks_of_our_own_app_beside_the_built_in_ones() -> None:
    app = app_for({"mine.function": lambda job_id, at: job_id}, [])
    assert {"mine.function", "itinerary.echo"} <= set(app.tasks)


def test_a_function_called_by_somebody_else_says_that_it_does_not_know_its_job() -> None:
    app = app_for({"mine.other": lambda job_id, at: job_id}, [])
    with pytest.raises(RuntimeError, match="only Itinerary may call"):
        app.tasks["mine.other"]()


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "got"),
    [
        (lambda: "nothing", [], {}, "nothing"),
        (lambda job_id: job_id, [], {}, "job"),
        (lambda job_id, at: (job_id, at.year), [], {}, ("job", 2026)),
        (lambda job_id, at, note="none": (job_id, note), [], {"note": "given"}, ("job", "given")),
        (lambda note: note, ["own"], {}, "own"),
        (lambda job_id, note: (job_id, note), [], {"note": "own"}, ("job", "own")),
        (lambda note="default": note, [], {}, "default"),
        (lambda *all_of_it: len(all_of_it), [1], {}, 3),
    ],
)
def test_a_function_of_the_job_and_its_time_of_the_job_or_of_nothing_gets_what_it_takes(
    function: Any, args: list[Any], kwargs: dict[str, Any], got: Any
) -> None:
    app = app_for({"mine.taking": function}, [])
    at = datetime(2026, 11, 27, tzinfo=UTC)
    token = running.set(CurrentRun("run", "job", 1, at, at, lambda: False))
    try:
        assert app.tasks["mine.taking"](*args, **kwargs) == got
    finally:
        running.reset(token)
        del app.tasks["mine.taking"]


def test_the_app_of_celery_tasks_runs_the_functions_too() -> None:
    own = Celery("own", broker="redis://127.0.0.1:1/0")
    assert app_for({"mine.function": print}, [own]) is own
    assert "mine.function" in own.tasks


def test_tasks_of_two_apps_are_refused_by_name() -> None:
    with pytest.raises(BadValue, match="first, second"):
        app_for({}, [Celery("first"), Celery("second")])
