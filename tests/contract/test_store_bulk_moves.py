"""Bulk operations that move waiting runs to another queue, and that delete runs which are over."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from itinerary.protocol.errors import Conflict, StoreUnavailable
from itinerary.protocol.instants import HOUR
from itinerary.protocol.limits import LimitUse, lane_of
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.core.bulk import BulkAction, BulkOn, BulkOrder, BulkState
from scheduler_service.core.contract.bulk_json import read_bulk
from scheduler_service.core.leader.commands import Apply, Dispatch, Transition
from scheduler_service.core.leader.lane_reads import LanePage
from scheduler_service.core.model import Lease, NewRun
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.ports.stores import RunFilter
from scheduler_service.sql.bulk import SqlBulkStore
from scheduler_service.sql.bulk_moves import move_runs
from scheduler_service.sql.leader import dispatch
from tests.contract.test_store_bulk import AT, audit, began, carried_out, failed_runs, runs_order
from tests.support.store_bed import StoreBed, occurrence, one_off


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_service.sql.bulk_runs.RUNS_AT_ONCE", 3)


@pytest.fixture
def bulk(sql_stores: StoreBed) -> SqlBulkStore:
    """The operations, by the rights of an API."""
    return SqlBulkStore(sql_stores.by_role["api"])


def move(to: str = "new", **filters: Any) -> BulkOrder:
    return read_bulk(BulkOn.RUNS, {"action": "move", "filter": filters, "all": not filters, "queue": to}, 0)


def queues(bed: StoreBed) -> dict[str, str]:
    return {run.run_id: run.queue for run in bed.runs.list(RunFilter(), 1000, None).items}


def recalled(bed: StoreBed, lease: Lease, run: NewRun) -> None:
    bed.dispatched(lease, run)
    back = Transition(run.run_id, 1, Event.RECALL, RunState.SCHEDULED, lease.now, reason="recalled: a pause")
    assert bed.leader.apply(lease, Apply((back,))) == ()


def test_what_waits_and_was_never_sent_moves_page_by_page_and_back(sql_stores: StoreBed, bulk: SqlBulkStore) -> None:
    lease = sql_stores.lead()
    waiting = [run.run_id for run, _ in sql_stores.runs.enqueue([one_off(AT + n, queue="old") for n in range(7)])]
    other = one_off(AT, queue="other")
    sql_stores.runs.enqueue([other])
    recalled(sql_stores, lease, back := one_off(lease.now, queue="old"))
    (pending,) = sql_stores.dispatched(lease, one_off(lease.now, queue="old"))
    operation = began(bulk, move(queue="old"))
    done = carried_out(bulk, operation)
    assert done.progress.state is BulkState.DONE
    assert done.progress.counts == {"moved": 7, "sent_before": 1}
    there = queues(sql_stores)
    assert {there[run_id] for run_id in waiting} == {"new"}
    assert [there[one.run_id] for one in (back, pending, other)] == ["old", "old", "other"]
    pages = [
        after["changed"] for action, _, after in audit(sql_stores, operation.operation_id) if action == "bulk.page"
    ]
    assert sorted(pair for page in pages for pair in page) == sorted([run_id, "old"] for run_id in waiting)
    gone = sql_stores.runs.request_cancel(waiting[0])
    assert gone.state is RunState.CANCELLED
    carried_out(bulk, began(bulk, move("third", run_ids=[waiting[1]])))
    undo = carried_out(bulk, began(bulk, replace(done.order, undo_of=done.operation_id)))
    assert undo.progress.counts == {"restored": 5, "changed_since": 2}
    there = queues(sql_stores)
    assert [there[run_id] for run_id in waiting] == ["new", "third", *["old"] * 5]


def test_a_run_that_is_there_already_stays_and_a_retry_moves(sql_stores: StoreBed, bulk: SqlBulkStore) -> None:
    lease = sql_stores.lead()
    (tried,) = sql_stores.dispatched(lease, one_off(lease.now, queue="old", retry=RetryPolicy(max_attempts=3)))
    again = Transition(tried.run_id, 1, Event.FAIL, RunState.RETRYING, lease.now, due_at=AT)
    assert sql_stores.leader.apply(lease, Apply((again,))) == ()
    sql_stores.runs.enqueue([one_off(AT, queue="new")])
    done = carried_out(bulk, began(bulk, move()))
    assert done.progress.counts == {"moved": 1, "unchanged": 1}
    (row,) = sql_stores.leader.read_runs([tried.run_id])
    assert (row.state, row.queue, row.attempt) == (RunState.RETRYING, "new", 2)


def test_the_leader_finds_a_moved_run_in_its_lane_of_the_new_queue(sql_stores: StoreBed, bulk: SqlBulkStore) -> None:
    lease = sql_stores.lead()
    use = (LimitUse("tenant", "acme"),)
    run = one_off(lease.now, queue="old", limits=use, lane=lane_of(use))
    sql_stores.make(lease, run)
    carried_out(bulk, began(bulk, move(queue="old")))
    assert sql_stores.leader.waiting_lanes("old", "", 10).lanes == ()
    assert sql_stores.leader.waiting_lanes("new", "", 10).lanes == (run.lane,)
    (head,) = sql_stores.leader.lane_heads(lease.now + HOUR, [LanePage("new", run.lane)], 10).runs
    assert (head.run_id, head.queue, head.limits) == (run.run_id, "new", use)


def test_a_dispatch_chosen_for_the_old_queue_is_refused(sql_stores: StoreBed, bulk: SqlBulkStore) -> None:
    lease = sql_stores.lead()
    (run,) = sql_stores.make(lease, one_off(lease.now, queue="old"))
    carried_out(bulk, began(bulk, move(queue="old")))
    refused = sql_stores.leader.dispatch_runs(lease, [Dispatch(run.run_id, 1, 5, "old")], lease.now)
    assert (refused.dispatched, refused.refused, refused.outdated) == ((), (run.run_id,), False)
    (sent,) = sql_stores.leader.dispatch_runs(lease, [Dispatch(run.run_id, 1, 6, "new")], lease.now).dispatched
    assert sent.queue == "new"


def test_a_move_waits_for_a_dispatch_under_way_and_leaves_what_it_sent(sql_stores: StoreBed) -> None:
    if sql_stores.kind != "postgresql":
        pytest.skip("SQLite has one writer")
    lease = sql_stores.lead()
    (run,) = sql_stores.make(lease, one_off(lease.now, queue="old"))
    api, found = sql_stores.by_role["api"], []

    def moving() -> None:
        with api.write() as connection:
            found.append(move_runs(api, connection, {run.run_id: "new"}))

    thread = threading.Thread(target=moving)
    beside = sql_stores.beside()
    with beside.by_role["leader"].write() as connection:
        sent = dispatch.dispatch(connection, lease.term, [Dispatch(run.run_id, 1, 5, "old")], lease.now, 0)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive(), "it waits for the row"
    thread.join()
    assert len(sent.dispatched) == 1
    assert found == [({"unchanged": 1}, [])]
    assert queues(sql_stores) == {run.run_id: "old"}


def test_a_page_of_moves_is_done_with_its_progress_or_not_at_all(
    sql_stores: StoreBed, bulk: SqlBulkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql_stores.runs.enqueue([one_off(AT + n, queue="old") for n in range(4)])
    operation = began(bulk, move(queue="old"))

    def dies(*_: Any) -> None:
        raise StoreUnavailable("killed")

    with monkeypatch.context() as patch:
        patch.setattr("scheduler_service.sql.bulk._note", dies)
        with pytest.raises(StoreUnavailable):
            bulk.step()
    assert set(queues(sql_stores).values()) == {"old"}
    assert carried_out(bulk, operation).progress.counts == {"moved": 4}


def test_what_is_over_is_deleted_but_for_planned_runs_and_never_what_is_not(
    sql_stores: StoreBed, bulk: SqlBulkStore
) -> None:
    lease = sql_stores.lead()
    job = sql_stores.planned_job(lease)
    planned = occurrence(job, lease.now - HOUR)
    sql_stores.dispatched(lease, planned)
    end = Transition(planned.run_id, 1, Event.FAIL, RunState.FAILED, lease.now, reason="no")
    assert sql_stores.leader.apply(lease, Apply((end,))) == ()
    gone = failed_runs(sql_stores, lease, 5, queue="mail")
    (pending,) = sql_stores.dispatched(lease, one_off(lease.now))
    waiting, _ = sql_stores.runs.enqueue([one_off(AT)])[0]
    operation = began(bulk, runs_order(BulkAction.DELETE, state=["failed", "scheduled", "pending"]))
    done = carried_out(bulk, operation)
    assert done.progress.counts == {"deleted": 5, "planned_kept": 1}
    assert set(queues(sql_stores)) == {planned.run_id, pending.run_id, waiting.run_id}
    pages = [
        after["changed"] for action, _, after in audit(sql_stores, operation.operation_id) if action == "bulk.page"
    ]
    assert sorted(run_id for page in pages for run_id in page) == sorted(gone)
    assert not done.can_be_undone
    with pytest.raises(Conflict, match="cannot be undone"):
        began(bulk, replace(done.order, undo_of=done.operation_id))


def test_a_run_that_is_deleted_beside_another_operation_is_counted_once(
    sql_stores: StoreBed, bulk: SqlBulkStore
) -> None:
    failed_runs(sql_stores, sql_stores.lead(), 4)
    first, second = (began(bulk, runs_order(BulkAction.DELETE, state="failed")) for _ in range(2))
    bulk.step(first.operation_id)
    ends = [carried_out(bulk, one).progress.counts for one in (second, first)]
    assert sum(counts.get("deleted", 0) for counts in ends) == 4
