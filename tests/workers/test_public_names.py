"""The public face: which names there are, that they are what they say, and that importing it loads nothing heavy."""

import pkgutil
import subprocess
import sys

import pytest

import itinerary
from tests.support.processes import REPOSITORY, project_env

LOADED = """
import sys
{statement}
print(*sorted({{name.partition(".")[0] for name in sys.modules}} & {{"celery", "kombu", "redis", "scheduler_service"}}))
"""


def loaded_by(statement: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", LOADED.format(statement=statement)],
        env=project_env(), cwd=REPOSITORY, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip


def test_the_public_names_are_these() -> None:
    apps, errors = ["CurrentRun", "RunCancelled", "attach", "current_run"], ["ItineraryError", "BadValue", "BadValues"]
    enqueueing = ["enqueue_in", "enqueue_in_async", "enqueue_many_in", "enqueue_many_in_async"]
    clients = ["AsyncClient", "Client", "ApiError", "Conflict", "NoAnswer", "RunFailed", "WaitTimeout"]
    assert itinerary.__all__ == sorted([*apps, *clients, *enqueueing, *errors, "schedule"])
    assert set(itinerary.__all__) <= set(dir(itinerary))
    for name in itinerary.__all__:
        assert getattr(itinerary, name).__name__.removeprefix("itinerary.jobs.") == name
    assert callable(itinerary.attach)
    assert issubclass(itinerary.RunCancelled, Exception)
    for name in ("ApiError", "BadValue", "BadValues", "Conflict", "NoAnswer", "WaitTimeout"):
        assert issubclass(getattr(itinerary, name), itinerary.ItineraryError)


def test_no_module_bears_a_public_name() -> None:
    """Importing `itinerary.attach` would put a module where the function was."""
    assert not {module.name for module in pkgutil.iter_modules(itinerary.__path__)} & set(itinerary.__all__)


def test_another_name_is_an_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="module 'itinerary' has no attribute 'attatch'"):
        itinerary.attatch  # type: ignore[attr-defined]  # noqa: B018


def test_a_name_stays_what_it_is_once_every_module_is_imported() -> None:
    for module in pkgutil.walk_packages(itinerary.__path__, "itinerary."):
        # Those of Django are imported by a project that is configured.
        if not module.name.endswith("__main__") and not module.name.startswith("itinerary.django."):
            __import__(module.name)
    assert callable(itinerary.attach)
    assert itinerary.current_run() is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "loaded"),
    [
        ("import itinerary", []),
        ("from itinerary import RunCancelled, current_run; current_run()", []),
        ("from itinerary import AsyncClient, BadValue, Client, enqueue_in, enqueue_many_in_async", []),
        ("from itinerary import schedule; schedule.hourly(17)(lambda: None)", []),
        ("from itinerary.jobs import collect", []),
        ("from itinerary import attach", ["celery", "kombu", "redis"]),
    ],
)
def test_importing_loads_what_is_used(statement: str, loaded: list[str]) -> None:
    assert loaded_by(statement) == loaded
