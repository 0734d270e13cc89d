"""Where a task runs in a process that is no copy of the main one, it is claimed there or not started."""

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from celery.app import app_or_default
from celery.concurrency import thread

from itinerary.protocol.wire import HEADER_ATTEMPT, HEADER_RUN_ID
from itinerary.worker.claimable import Unattached
from itinerary.worker.unattached import guard, run_attached

OURS = {"id": "run~1", HEADER_RUN_ID: "run", HEADER_ATTEMPT: 1}


class PoolOfTheirs:
    """A pool class that is not Celery's: it may send a task anywhere."""

    def __init__(self) -> None:
        self.given: list[tuple[Any, Any, Any]] = []

    def apply_async(self, target: Any, args: Any, **options: Any) -> None:
        self.given.append((target, args, options))


@pytest.fixture
def unattached() -> Iterator[Celery]:
    before: Any = app_or_default()
    with Celery("unattached", broker="memory://", set_as_current=False) as app:
        app.set_current()
        yield app
    before.set_current()


def trace(*args: Any) -> tuple[str, Any]:
    return "traced", args


def test_a_pool_of_theirs_runs_tasks_by_the_function_that_looks_for_the_claim() -> None:
    pool = PoolOfTheirs()
    guard(pool)
    pool.apply_async(trace, args=("a.task", "run~1", OURS, b"", "json", "utf-8"), timeout=3)
    assert pool.given == [(run_attached, (trace, "a.task", "run~1", OURS, b"", "json", "utf-8"), {"timeout": 3})]


def test_celerys_threads_run_in_this_process_and_are_left_alone() -> None:
    pool = thread.TaskPool(2)
    before = pool.apply_async
    guard(pool)
    assert pool.apply_async == before


@pytest.mark.usefixtures("unattached")
def test_a_run_without_its_claim_is_not_started_and_another_message_is() -> None:
    with pytest.raises(Unattached, match="attach"):
        run_attached(trace, "a.task", "run~1", OURS, b"")
    plain = {"id": "another"}
    assert run_attached(trace, "a.task", "another", plain, b"") == ("traced", ("a.task", "another", plain, b""))
