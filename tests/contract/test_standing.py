"""Runs are found by what they stand as: for every kind and state the same ones as by the state itself."""

import pytest
from sqlalchemy import text

from itinerary.protocol.instants import SECOND
from scheduler_service.core.model import RunKind
from scheduler_service.core.run_state import ACTIVE, IN_FLIGHT, WAITING, RunState
from scheduler_service.ports.stores import RunFilter
from scheduler_service.sql.leader.reads import tracked_runs
from scheduler_service.sql.run_pages import SqlHistoryStore
from tests.support.store_bed import StoreBed

_INSERT = """
INSERT INTO runs (run_id, kind, task, args, kwargs, queue, priority, scheduled_at, due_at, state, created_at)
VALUES (:run_id, :kind, 'pkg.task', '[]', '{}', 'default', 5, :at, :at, :state, :at)
"""
_AT = {"postgresql": "2026-11-28T10:00:00Z", "sqlite": 1_795_860_000_000_000}
EVERY = {f"{kind}_{state}": (kind, state) for kind in RunKind for state in RunState}


@pytest.fixture
def every_run(own_stores: StoreBed) -> StoreBed:
    """One run of each kind in each state, due long ago."""
    assert own_stores.database is not None
    with own_stores.database.write() as connection:
        for run_id, (kind, state) in EVERY.items():
            row = {"run_id": run_id, "kind": kind.value, "state": state.value, "at": _AT[own_stores.kind]}
            connection.execute(text(_INSERT), row)
    return own_stores


def named(*states: RunState, kinds: tuple[RunKind, ...] = tuple(RunKind)) -> set[str]:
    return {run_id for run_id, (kind, state) in EVERY.items() if state in states and kind in kinds}


@pytest.mark.parametrize("state", RunState)
def test_a_list_of_one_state_has_all_of_it(every_run: StoreBed, state: RunState) -> None:
    found = every_run.runs.list(RunFilter(states=(state,)), 50, None).items
    assert {run.run_id for run in found} == named(state)


@pytest.mark.parametrize(
    "states", [tuple(RunState), tuple(ACTIVE), (RunState.PENDING, RunState.COMPLETED), tuple(IN_FLIGHT)]
)
def test_runs_of_several_states_are_listed_once_each(every_run: StoreBed, states: tuple[RunState, ...]) -> None:
    found = every_run.runs.list(RunFilter(states=states), 50, None).items
    assert sorted(run.run_id for run in found) == sorted(named(*states))


def test_a_leader_keeps_all_but_what_was_asked_for_and_waits(every_run: StoreBed) -> None:
    assert every_run.database is not None
    of_jobs = named(*WAITING, kinds=(RunKind.OCCURRENCE,)) | named(RunState.RETRYING, kinds=(RunKind.MANUAL,))
    with every_run.database.read() as connection:
        assert {run.run_id for run in tracked_runs(connection)} == named(*IN_FLIGHT) | of_jobs


def test_what_was_asked_for_is_found_when_it_is_due_and_what_was_planned_when_it_is_overdue(
    every_run: StoreBed,
) -> None:
    now = every_run.lead().now + 3600 * SECOND
    due = every_run.leader.due_runs(now, 100)
    assert {run.run_id for run in due} == named(*WAITING, kinds=(RunKind.MANUAL, RunKind.ADHOC))
    overdue = every_run.leader.overdue_runs(now, 100, None)
    assert {run.run_id for run in overdue.runs} == named(*WAITING, kinds=(RunKind.OCCURRENCE,))


def test_overdue_runs_of_any_state_come_in_one_order(every_run: StoreBed) -> None:
    now = every_run.lead().now + 3600 * SECOND
    whole = [run.run_id for run in every_run.leader.overdue_runs(now, 100, None).runs]
    seen, after = [], None
    while (page := every_run.leader.overdue_runs(now, 2, after)).runs:
        seen += [run.run_id for run in page.runs]
        after = page.after
        if after is None:
            break
    assert seen == whole


def test_active_runs_are_counted_up_to_a_number(every_run: StoreBed) -> None:
    assert every_run.database is not None
    history = SqlHistoryStore(every_run.database)
    assert history.active_counts(100) == dict.fromkeys(ACTIVE, len(RunKind))
    assert history.active_counts(2) == dict.fromkeys(ACTIVE, 2)
