"""How the end of a run is told: an unknown task by its name and queue, a cancel that was asked for as no error."""

import pytest

from itinerary.protocol.instants import SECOND
from scheduler_service.core.run_state import RunState
from tests.support.world import World


def test_an_unknown_task_is_told_with_its_name_and_where_it_was_looked_for() -> None:
    world = World()
    error = {"type": "celery.exceptions.NotRegistered", "message": "'no.such.task'", "traceback": None}
    world.workers.behave = lambda _: ("failed", {"error": error, "reason": "unknown_task"})
    run_id = world.enqueue()
    world.advance(SECOND)
    run = world.run(run_id)
    assert run.state is RunState.FAILED
    assert run.reason == (
        "no worker on queue default knows the task no.such.task; is it misspelt, or on another queue?"
    )


@pytest.mark.parametrize(("reason", "kept"), [("terminated", False), ("revoked", False), (None, True)])
def test_a_run_that_was_stopped_as_asked_has_no_error(reason: str | None, kept: bool) -> None:
    world = World()
    error = {"type": "SystemExit", "message": "-241", "traceback": "Traceback ..."}
    world.workers.seconds = 5
    world.workers.behave = lambda _: ("failed", {"error": error, "reason": reason})
    run_id = world.enqueue()
    world.advance(SECOND)
    world.cancel(run_id)
    world.advance(10 * SECOND)
    run = world.run(run_id)
    assert (run.state, run.reason) == (RunState.CANCELLED, "cancelled while running")
    assert (run.error is not None) == kept
