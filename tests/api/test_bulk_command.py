"""Bulk operations by the command line and the client, and an API that is killed in the middle of one."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from itinerary.client.sync import Client
from itinerary.protocol.instants import SECOND
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.stores import RunFilter
from scheduler_service.sql.database import Database
from scheduler_service.sql.runs import SqlRunStore
from tests.support.command_line import Itinerary
from tests.support.processes import free_port, project_env, wait_until
from tests.support.store_bed import one_off
from tests.support.warm_command import ServiceChild

pytestmark = pytest.mark.slow  # whole processes
LATER = "2999-01-01T00:00:00Z"


def test_runs_are_cancelled_and_retried_by_a_filter(itinerary: Itinerary) -> None:
    for _ in range(3):
        itinerary.done("enqueue", "t", "--queue", "bulk", "--at", LATER)
    seen = itinerary.done("runs", "cancel", "--queue", "bulk", "--dry-run")
    assert seen.splitlines()[1].split() == ["scheduled", "3", "cancelled"]
    told = itinerary.done("runs", "cancel", "--queue", "bulk", "--yes").splitlines()
    assert told[-1] == "cancel runs: done; 3 cancelled"
    told = itinerary.done(
        "runs", "retry", "--queue", "bulk", "--state", "cancelled", "--until", "3000-01-01", "--yes"
    ).splitlines()
    assert told[-2] == "retry runs: done; 3 retried"
    undo = told[-1].removeprefix("take it back: itinerary ").split()
    assert itinerary.done(*undo) == "undo of retry runs: done; 3 cancelled\n"
    again = itinerary(*undo)
    assert (again.returncode, "undone already" in again.stderr) == (1, True)
    itinerary.done("enqueue", "t", "--queue", "bulk", "--at", LATER)
    assert "1 moved" in itinerary.done("runs", "move", "--queue", "bulk", "--to", "bulk2", "--yes")
    (waits,) = json.loads(itinerary.done("runs", "list", "--queue", "bulk2", "--json"))["items"]
    itinerary.done("runs", "cancel", waits["run_id"])
    assert "1 deleted" in itinerary.done("runs", "delete", waits["run_id"], "--yes")
    listed = itinerary.done("bulk", "list").splitlines()
    assert ["undo" in line for line in listed[3:]] == [True, False, False]
    shown = json.loads(itinerary.done("bulk", "show", undo[-1], "--json"))
    assert shown["filter"] == {"queue": "bulk", "state": ["cancelled"], "until": shown["filter"]["until"]}


def test_jobs_are_paused_moved_and_deleted_by_a_filter(itinerary: Itinerary) -> None:
    for name in ("bulk.a", "bulk.b"):
        itinerary.done("jobs", "add", name, "t", "--every", "1h", "--tag", "nightly")
    paused = itinerary.done("jobs", "pause", "--tag", "nightly", "--reason", "audit", "--yes").splitlines()
    assert paused[-2] == "pause jobs: done; 2 paused"
    assert "2 resumed" in itinerary.done("jobs", "resume", "--tag", "nightly", "--yes")
    assert "1 moved" in itinerary.done("jobs", "move", "bulk.a", "--to", "slow", "--yes")
    deleted = json.loads(itinerary.done("jobs", "pause", "--text", "bulk.", "--dry-run", "--json"))
    assert (deleted["changing"], deleted["groups"][0]["what"]) == (2, "active")
    unasked = itinerary("jobs", "delete", "--tag", "nightly")
    assert (unasked.returncode, "no terminal to ask on: give --yes" in unasked.stderr) == (2, True)
    assert "the first of them: bulk.a, bulk.b" in unasked.stdout
    assert "2 deleted" in itinerary.done("jobs", "delete", "--tag", "nightly", "--yes")


@pytest.mark.parametrize(("words", "told"), [
    (("runs", "cancel"), "name some, give a filter, or --all"),
    (("runs", "cancel", "a", "--queue", "b"), "ids or a filter, not both"),
    (("runs", "retry", "--queue", "b"), "name the states to run again"),
    (("runs", "cancel", "--since", "yesterdy"), "or how long ago, such as 1h"),
    (("runs", "delete", "--queue", "b"), "name the states to delete"),
    (("runs", "move", "a"), "name the queue with --to"),
    (("jobs", "move", "a"), "name the queue with --to"),
    (("jobs", "pause", "a", "--dry-run"), "--dry-run is for what a filter finds"),
])  # fmt: skip
def test_what_would_act_on_too_much_is_refused(itinerary: Itinerary, words: tuple[str, ...], told: str) -> None:
    ended = itinerary(*words)
    assert ended.returncode in (1, 2)
    assert told in ended.stderr


@pytest.mark.parametrize(("action", "number", "outcome"), [
    ("cancel", 12_000, "cancelled"), ("move", 3_000, "moved"),
])  # fmt: skip
def test_an_operation_outlives_the_api_that_began_it(
    database_url: str, redis_url: str, tmp_path: Path, action: str, number: int, outcome: str
) -> None:
    """The API is killed with -9 between two of its pages, and another carries on."""
    counted = (10_000, False) if number > 10_000 else (number, True)
    env = project_env(
        ITINERARY_DATABASE_URL=database_url, ITINERARY_REDIS_URL=redis_url, ITINERARY_DATA_DIR=str(tmp_path),
        ITINERARY_API_PORT=str(free_port()),
    )  # fmt: skip
    address = f"http://127.0.0.1:{env['ITINERARY_API_PORT']}"
    with closing(Database(database_url, pool_size=2)) as database:
        runs = SqlRunStore(database)
        for first in range(0, number, 3_000):
            runs.enqueue([one_off((4_000_000_000 + first + n) * SECOND, queue="many") for n in range(3_000)])
        with ServiceChild("api", env=env) as api, Client(address) as client:
            api.wait_for_line("api starting")
            began = client.bulk_runs(action, queue="many", to="other" if action == "move" else None)
            assert (began.state, began.total, began.total_is_exact) == ("running", *counted)
            wait_until(lambda: client.bulk_operation(began.operation_id).seen >= number // 6)
            api.kill()
        with ServiceChild("api", env=env) as api, Client(address) as client:
            api.wait_for_line("api starting")
            wait_until(lambda: client.bulk_operation(began.operation_id).state == "done", what=lambda: api.output)
            done = client.bulk_operation(began.operation_id)
            entries = client.audit(subject=began.operation_id, limit=1000).items
        assert (done.seen, done.counts) == (number, {outcome: number})
        changed = [one for entry in entries if entry.action == "bulk.page" for one in entry.after["changed"]]
        run_ids = [one if isinstance(one, str) else one[0] for one in changed]
        assert len(run_ids) == len(set(run_ids)) == number
        left = RunFilter(states=(RunState.SCHEDULED,), queue="many")
        assert not runs.list(left, 1, None).items
