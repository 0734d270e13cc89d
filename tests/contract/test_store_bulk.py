"""BulkStore: each page with its progress or not at all, nothing twice, nothing that came later, and back again."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update

from itinerary.protocol.errors import Conflict, NotFound, StoreUnavailable
from itinerary.protocol.instants import DAY, SECOND
from scheduler_service.core.audit import Caller
from scheduler_service.core.bulk import BulkAction, BulkOn, BulkOperation, BulkOrder, BulkState
from scheduler_service.core.contract.bulk_json import read_bulk
from scheduler_service.core.leader.commands import Apply, Transition
from scheduler_service.core.model import Job, Lease
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.core.token_limits import Limits
from scheduler_service.ports.history import Total
from scheduler_service.ports.records import AuditFilter
from scheduler_service.ports.stores import JobFilter, RunFilter
from scheduler_service.sql import bulk_jobs, bulk_runs
from scheduler_service.sql.audit import SqlAuditLog
from scheduler_service.sql.bulk import SqlBulkStore
from scheduler_service.sql.bulk_tables import bulk_operations
from tests.contract.test_store_lost_reply import lost_reply
from tests.support.statements import noted
from tests.support.store_bed import StoreBed, a_job, one_off, release

OLGA = Caller("olga", "operator")
SOME = Total(0, True)
AT = 1_900_000_000 * SECOND


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_runs, "RUNS_AT_ONCE", 3)
    monkeypatch.setattr(bulk_jobs, "JOBS_AT_ONCE", 3)


@pytest.fixture
def bulk(sql_stores: StoreBed) -> SqlBulkStore:
    """The operations, by the rights of an API."""
    return SqlBulkStore(sql_stores.by_role["api"])


def runs_order(action: BulkAction = BulkAction.CANCEL, **filters: Any) -> BulkOrder:
    return read_bulk(BulkOn.RUNS, {"action": action.value, "filter": filters, "all": not filters}, 0)


def jobs_order(action: BulkAction, filters: dict[str, Any], **options: Any) -> BulkOrder:
    return read_bulk(BulkOn.JOBS, {"action": action.value, "filter": filters, "all": not filters, **options}, 0)


def began(bulk: SqlBulkStore, order: BulkOrder, who: Caller = OLGA, key: str | None = None) -> BulkOperation:
    return bulk.begin(order, SOME, who, key, "hash" if key else None)[0]


def carried_out(bulk: SqlBulkStore, operation: BulkOperation) -> BulkOperation:
    for _ in range(50):
        stepped = bulk.step(operation.operation_id)
        if stepped is None:
            return bulk.get(operation.operation_id)
    raise AssertionError("it does not end")


def failed_runs(bed: StoreBed, lease: Lease, number: int, **fields: Any) -> list[str]:
    made = bed.dispatched(lease, *(one_off(lease.now - n, **fields) for n in range(number)))
    ends = [Transition(run.run_id, 1, Event.FAIL, RunState.FAILED, lease.now, reason="no") for run in made]
    assert bed.leader.apply(lease, Apply(tuple(ends))) == ()
    return [run.run_id for run in made]


def states(bed: StoreBed, **filters: Any) -> list[str]:
    return [run.state.value for run in bed.runs.list(RunFilter(**filters), 1000, None).items]


def job_of(bed: StoreBed, job_id: str) -> Job:
    return bed.jobs.get(job_id)


def audit(bed: StoreBed, subject: str) -> Sequence[Any]:
    entries = SqlAuditLog(bed.by_role["api"]).list(AuditFilter(subject=subject), 100, None).items
    return [(entry.action, entry.actor, entry.after) for entry in reversed(entries)]


def test_a_cancel_goes_page_by_page_over_all_that_matches_and_no_other(
    sql_stores: StoreBed, bulk: SqlBulkStore
) -> None:
    lease = sql_stores.lead()
    sql_stores.runs.enqueue([one_off(AT + n, queue="mail") for n in range(7)])
    sql_stores.runs.enqueue([one_off(AT, queue="other")])
    (flying,) = sql_stores.dispatched(lease, one_off(lease.now, queue="mail"))
    operation = began(bulk, runs_order(queue="mail"))
    later = sql_stores.runs.enqueue([one_off(AT, queue="mail")])[0][0]
    first = bulk.step()
    assert first is not None
    assert (first.operation.progress.seen, first.operation.progress.state) == (3, BulkState.RUNNING)
    done = carried_out(bulk, operation)
    assert (done.progress.state, done.progress.seen) == (BulkState.DONE, 8)
    assert done.progress.counts == {"cancelled": 7, "cancel_requested": 1}
    assert sql_stores.runs.get(flying.run_id).cancel_requested_at is not None
    assert states(sql_stores, queue="other") == ["scheduled"]
    assert sql_stores.runs.get(later.run_id).state is RunState.SCHEDULED, "it was enqueued after the operation began"
    entries = audit(sql_stores, operation.operation_id)
    assert [action for action, *_ in entries] == ["bulk.cancel", "bulk.page", "bulk.page", "bulk.page", "bulk.end"]
    assert {actor for _, actor, _ in entries} == {"olga"}
    assert entries[0][2]["filter"] == {"queue": "mail"}
    assert entries[-1][2] == {"counts": {"cancelled": 7, "cancel_requested": 1}, "seen": 8}
    changed = [run_id for _, _, after in entries[1:-1] for run_id in after["changed"]]
    assert len(set(changed)) == len(changed) == 8
    assert bulk.step() is None


def test_waiting_runs_are_walked_by_time_in_bounded_pages(
    sql_stores: StoreBed, bulk: SqlBulkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_service.sql.run_lists.SCANNED", 4)
    lease = sql_stores.lead()
    sql_stores.runs.enqueue([one_off(AT + n, queue="mail") for n in range(9)])
    failed_runs(sql_stores, lease, 9, queue="mail")
    (flying,) = sql_stores.dispatched(lease, one_off(lease.now - DAY, queue="mail"))
    with noted(sql_stores.by_role["api"].engine) as statements:
        done = carried_out(bulk, began(bulk, runs_order(queue="mail")))
    assert done.progress.counts == {"cancelled": 9, "cancel_requested": 1}
    assert sql_stores.runs.get(flying.run_id).cancel_requested_at is not None
    walks = [sql for sql in statements if "scanned" in sql]
    assert walks
    assert not any("standing" in sql for sql in walks), "that index is not in the order of time"


def test_a_page_is_done_with_its_progress_or_not_at_all(
    sql_stores: StoreBed, bulk: SqlBulkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = sql_stores.lead()
    old = failed_runs(sql_stores, lease, 7)
    operation = began(bulk, runs_order(BulkAction.RETRY, state="failed"))

    def dies(*_: Any) -> None:
        raise StoreUnavailable("killed")

    with monkeypatch.context() as patch:
        patch.setattr("scheduler_service.sql.bulk._note", dies)
        with pytest.raises(StoreUnavailable):
            bulk.step()
    assert len(states(sql_stores)) == 7, "nothing of the page is left"
    with lost_reply(sql_stores, monkeypatch):
        bulk.step()
    assert bulk.get(operation.operation_id).progress.counts == {"retried": 3}
    done = carried_out(bulk, operation)
    assert done.progress.counts == {"retried": 7}
    runs = sql_stores.runs.list(RunFilter(states=(RunState.SCHEDULED,)), 100, None).items
    assert sorted(run.retry_of or "" for run in runs) == sorted(old)
    again = carried_out(bulk, began(bulk, runs_order(BulkAction.RETRY, state="failed")))
    assert again.progress.counts == {"retried_before": 7}, "another operation runs none of them a second time"


def test_an_undone_retry_cancels_what_it_created(sql_stores: StoreBed, bulk: SqlBulkStore) -> None:
    lease = sql_stores.lead()
    failed_runs(sql_stores, lease, 5)
    before = carried_out(bulk, began(bulk, runs_order(BulkAction.RETRY, state="failed")))
    other = sql_stores.runs.enqueue([one_off(AT)])[0][0]
    assert before.can_be_undone
    undo = carried_out(bulk, began(bulk, replace(before.order, undo_of=before.operation_id)))
    assert undo.progress.counts == {"cancelled": 5}
    assert sql_stores.runs.get(other.run_id).state is RunState.SCHEDULED
    assert bulk.get(before.operation_id).undone_by == undo.operation_id
    with pytest.raises(Conflict, match="undone already"):
        began(bulk, replace(before.order, undo_of=before.operation_id))
    with pytest.raises(Conflict, match="an undo is not undone"):
        began(bulk, replace(before.order, undo_of=undo.operation_id))


def test_an_undo_whose_pages_are_gone_says_so_and_changes_nothing(sql_stores: StoreBed, bulk: SqlBulkStore) -> None:
    sql_stores.jobs.create(a_job("job"))
    before = carried_out(bulk, began(bulk, jobs_order(BulkAction.PAUSE, {})))
    undo = began(bulk, replace(before.order, undo_of=before.operation_id))
    assert sql_stores.database is not None
    with sql_stores.database.write() as connection:  # its entries in the audit log cannot be edited
        connection.execute(update(bulk_operations).values(undo_of=None))
        ours = bulk_operations.c.operation_id
        connection.execute(update(bulk_operations).where(ours == before.operation_id).values(operation_id="older"))
        connection.execute(update(bulk_operations).where(ours == undo.operation_id).values(undo_of="older"))
    undone = carried_out(bulk, undo)
    assert (undone.progress.state, undone.progress.counts) == (BulkState.FAILED, {})
    assert "is no longer in the audit log" in str(undone.progress.error)
    assert job_of(sql_stores, "job").paused
    with sql_stores.database.write() as connection:
        connection.execute(update(bulk_operations).values(undo_of=None))
    with pytest.raises(Conflict, match="is no longer in the audit log"):
        began(bulk, replace(before.order, undo_of="older"))


def test_a_pause_is_undone_for_exactly_the_jobs_that_it_changed(sql_stores: StoreBed, bulk: SqlBulkStore) -> None:
    for number in range(7):
        sql_stores.jobs.create(a_job(f"job.{number}", tags=["nightly"]))
    sql_stores.jobs.create(a_job("other"))
    sql_stores.jobs.set_paused("job.3", True, "mine", None)
    order = jobs_order(BulkAction.PAUSE, {"tag": "nightly"}, reason="an incident")
    assert carried_out(bulk, began(bulk, order)).progress.counts == {"paused": 6, "unchanged": 1}
    assert (job_of(sql_stores, "job.2").pause_reason, job_of(sql_stores, "job.3").pause_reason) == (
        "an incident",
        "mine",
    )
    assert not job_of(sql_stores, "other").paused
    undo_of = bulk.list(None, 1, None).items[0]
    sql_stores.jobs.set_paused("job.5", True, "later", None)
    undo = carried_out(bulk, began(bulk, replace(order, undo_of=undo_of.operation_id)))
    assert undo.progress.counts == {"restored": 5, "changed_since": 1}
    paused = {job.job_id: job.pause_reason for job in sql_stores.jobs.list(JobFilter(paused=True), 50, None).items}
    assert paused == {"job.3": "mine", "job.5": "later"}
    assert audit(sql_stores, "job.0")[-1][0] == "job.pause"


def test_jobs_are_moved_and_deleted_and_come_back_as_they_were(sql_stores: StoreBed, bulk: SqlBulkStore) -> None:
    for number in range(4):
        sql_stores.jobs.create(a_job(f"job.{number}", queue="old" if number else "new"))
    move = jobs_order(BulkAction.MOVE, {}, queue="new")
    moved = carried_out(bulk, began(bulk, move))
    assert moved.progress.counts == {"moved": 3, "unchanged": 1}
    delete = jobs_order(BulkAction.DELETE, {"job_ids": ["job.1", "job.2", "gone"]})
    deleted = carried_out(bulk, began(bulk, delete))
    assert deleted.progress.counts == {"deleted": 2}
    with pytest.raises(NotFound):
        job_of(sql_stores, "job.1")
    assert carried_out(bulk, began(bulk, replace(delete, undo_of=deleted.operation_id))).progress.counts == {
        "restored": 2
    }
    assert (job_of(sql_stores, "job.1").queue, job_of(sql_stores, "job.1").version) == ("new", 4)
    undone = carried_out(bulk, began(bulk, replace(move, undo_of=moved.operation_id)))
    assert undone.progress.counts == {"restored": 1, "changed_since": 2}
    assert job_of(sql_stores, "job.3").queue == "old"


def test_the_same_key_is_one_operation_and_another_request_a_conflict(sql_stores: StoreBed, bulk: SqlBulkStore) -> None:
    order = runs_order(queue="mail")
    first, made = bulk.begin(order, SOME, OLGA, "k", "hash")
    assert made
    assert bulk.begin(order, SOME, OLGA, "k", "hash") == (first, False)
    with pytest.raises(Conflict, match="another request"):
        bulk.begin(order, SOME, OLGA, "k", "other")


def test_an_operation_has_the_limits_of_the_token_that_began_it(sql_stores: StoreBed, bulk: SqlBulkStore) -> None:
    limited = Caller("lena", "operator", Limits(queues=("mail",), tasks=("pkg.*",), jobs=()))
    sql_stores.runs.enqueue([one_off(AT + n, queue=queue) for n, queue in enumerate(("mail", "other") * 4)])
    done = carried_out(bulk, began(bulk, runs_order(), limited))
    assert done.progress.counts == {"cancelled": 4}
    assert set(states(sql_stores, queue="other")) == {"scheduled"}
    sql_stores.jobs.create(a_job("a", queue="mail"))
    sql_stores.jobs.create(a_job("b", queue="other"))
    carried_out(bulk, began(bulk, jobs_order(BulkAction.PAUSE, {}), limited))
    assert [job.job_id for job in sql_stores.jobs.list(JobFilter(paused=True), 9, None).items] == ["a"]
    assert bulk.list("lena", 10, None).items[0].limits == limited.limits
    assert bulk.list("olga", 10, None).items == []


def test_a_stopped_operation_changes_nothing_more(sql_stores: StoreBed, bulk: SqlBulkStore) -> None:
    sql_stores.runs.enqueue([one_off(AT + n) for n in range(7)])
    operation = began(bulk, runs_order())
    bulk.step()
    stopped = bulk.stop(operation.operation_id, OLGA)
    assert stopped.progress.state is BulkState.STOPPED
    assert carried_out(bulk, operation).progress.seen == 3
    assert bulk.stop(operation.operation_id, OLGA) == stopped
    assert states(sql_stores).count("scheduled") == 4


def test_a_page_that_cannot_succeed_ends_its_operation_and_holds_up_no_other(
    sql_stores: StoreBed, bulk: SqlBulkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql_stores.runs.enqueue([one_off(AT)])
    broken = began(bulk, runs_order())
    other = began(bulk, runs_order(queue="default"))

    def wrong(*_: Any) -> None:
        raise ValueError("of no use")

    with monkeypatch.context() as patch:
        patch.setattr("scheduler_service.sql.bulk.runs_page", wrong)
        stepped = bulk.step()
    assert stepped is not None
    assert (stepped.operation.operation_id, stepped.operation.progress.error) == (broken.operation_id, "of no use")
    assert carried_out(bulk, other).progress.counts == {"cancelled": 1}


def test_operations_take_turns(sql_stores: StoreBed, bulk: SqlBulkStore) -> None:
    sql_stores.runs.enqueue([one_off(AT + n) for n in range(10)])
    began(bulk, runs_order())
    small = began(bulk, jobs_order(BulkAction.PAUSE, {}))
    for _ in range(2):
        bulk.step()
    assert bulk.get(small.operation_id).progress.state is BulkState.DONE


def test_operations_that_are_long_over_are_removed(sql_stores: StoreBed, bulk: SqlBulkStore) -> None:
    old = carried_out(bulk, began(bulk, runs_order()))
    sql_stores.lead()
    with sql_stores.by_role["api"].write() as connection:
        connection.execute(update(bulk_operations).values(finished_at=old.created_at - 31 * DAY))
    began(bulk, runs_order())
    with pytest.raises(NotFound):
        bulk.get(old.operation_id)


def test_what_is_over_or_never_matched_costs_no_page(sql_stores: StoreBed, bulk: SqlBulkStore) -> None:
    lease = sql_stores.lead()
    sql_stores.dispatched(lease, one_off(lease.now))
    release(one_off(AT))
    order = runs_order(state="failed")
    done = carried_out(bulk, began(bulk, order))
    assert (done.progress.state, done.progress.counts) == (BulkState.DONE, {})
