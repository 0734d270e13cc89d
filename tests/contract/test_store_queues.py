"""QueueStore, and its lock against dispatches: once a pause has returned, nothing chosen before it moves."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import text

from itinerary.protocol.errors import Conflict
from itinerary.protocol.instants import HOUR, MINUTE, SECOND
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.controls import Controls, QueueDefinition
from scheduler_service.core.freezes import Freeze, Scope
from scheduler_service.core.limits import Bounds, Limit, Rate
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.records import AuditFilter
from scheduler_service.sql import freezes as sql_freezes
from scheduler_service.sql import queues as sql_queues
from scheduler_service.sql.audit import SqlAuditLog
from scheduler_service.sql.fence import fenced
from scheduler_service.sql.queues import MOST_WAITING
from tests.support.processes import wait_until
from tests.support.store_bed import StoreBed, one_off, release

BY = AuditedChange("olga", "operator", "queue.pause")
TO_CUSTOMERS = QueueDefinition("to customers")


def version_of(bed: StoreBed) -> int:
    controls = bed.leader.controls(-1)
    assert controls is not None
    return controls.version


def test_a_queue_that_nobody_described_has_defaults(bed: StoreBed) -> None:
    queue = bed.queues.get("mail")
    assert (queue.name, queue.defined, queue.definition, queue.pause) == ("mail", False, QueueDefinition(), None)
    assert (queue.waiting, queue.waiting_more, queue.pending, queue.running) == (0, False, 0, 0)
    assert bed.leader.controls(0) is None


def test_a_pause_holds_until_it_is_resumed_and_each_edit_raises_the_version(bed: StoreBed) -> None:
    lease = bed.lead()
    paused = bed.queues.pause("mail", "an incident", None, by=BY)
    assert paused.defined
    assert paused.pause is not None
    assert (paused.pause.reason, paused.pause.by, paused.pause.until) == ("an incident", "olga", None)
    assert lease.now <= paused.pause.since
    assert bed.leader.controls(0) == Controls(1, {"mail": paused.pause})
    assert bed.leader.controls(1) is None, "the same version is not read again"
    assert bed.queues.get("mail") == paused
    assert bed.queues.pause("mail", "an incident", None, by=BY) == paused
    assert version_of(bed) == 1, "an equal pause outdates no choice"
    longer = bed.queues.pause("mail", "still", lease.now + HOUR, by=AuditedChange("otto", "operator", "queue.pause"))
    assert longer.pause is not None
    assert (longer.pause.since, longer.pause.by) == (paused.pause.since, "olga")
    described = bed.queues.define("mail", lambda _: TO_CUSTOMERS, by=BY)
    assert (described.definition, described.pause) == (TO_CUSTOMERS, longer.pause)
    resumed = bed.queues.resume("mail", by=BY)
    assert (resumed.definition, resumed.pause, resumed.defined) == (TO_CUSTOMERS, None, True)
    assert bed.leader.controls(0) == Controls(4, {})
    assert bed.queues.resume("other", by=BY).defined is False
    assert version_of(bed) == 4


def test_the_bounds_of_a_queue_are_a_limit_of_its_own_name(bed: StoreBed) -> None:
    bed.lead()
    bounds = Bounds(3, Rate(90, 10 * SECOND))
    bed.queues.pause("mail", "why", None, by=BY)
    defined = bed.queues.define("mail", lambda there: replace(there, bounds=bounds, fair=True), by=BY)
    assert bed.queues.get("mail") == defined
    assert defined.definition == QueueDefinition("", bounds, fair=True)
    controls = bed.leader.controls(0)
    assert controls is not None
    assert (controls.limits, controls.fair) == ({"queue:mail": Limit("queue:mail", bounds)}, {"mail"})
    assert bed.queues.define("mail", lambda there: there, by=BY) == defined
    assert version_of(bed) == 2, "an equal definition outdates no choice"
    assert bed.queues.define("mail", lambda _: QueueDefinition(), by=BY).pause is not None
    assert version_of(bed) == 3


def test_a_pause_that_is_over_is_none(bed: StoreBed) -> None:
    lease = bed.lead()
    over = bed.queues.pause("mail", "short", lease.now - 1, by=BY)
    assert over.pause is None
    assert bed.queues.get("mail").pause is None
    again = bed.queues.pause("mail", "again", None, by=AuditedChange("otto", "operator", "queue.pause"))
    assert again.pause is not None
    assert again.pause.by == "otto"


def test_a_dispatch_that_was_chosen_before_an_edit_moves_nothing(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.make(lease, one_off(lease.now))
    bed.queues.pause("elsewhere", "why", None, by=BY)
    refused = bed.leader.dispatch_runs(lease, [release(run)], lease.now)
    assert (refused.dispatched, refused.refused, refused.outdated) == ((), (run.run_id,), True)
    assert bed.runs.get(run.run_id).state is RunState.SCHEDULED
    done = bed.leader.dispatch_runs(lease, [release(run)], lease.now, 1)
    assert ([moved.run_id for moved in done.dispatched], done.outdated) == ([run.run_id], False)
    assert not bed.leader.dispatch_runs(lease, [release(run)], lease.now, 1).outdated
    with bed.leader.together(lease):
        assert bed.leader.dispatch_runs(lease, [release(run)], lease.now, 0).outdated


@pytest.mark.postgres
def test_a_pause_waits_for_a_dispatch_under_way_and_later_ones_for_the_pause(postgres_stores: StoreBed) -> None:
    bed, beside = postgres_stores, postgres_stores.beside()
    lease = bed.lead()
    (run,) = bed.make(lease, one_off(lease.now))
    database = bed.database
    assert database is not None
    with ThreadPoolExecutor(2) as pool:
        with fenced(database, lease, by_controls=True) as connection:
            # This dispatch has begun and not compared the version yet.
            pausing = pool.submit(beside.queues.pause, "default", "now", None, by=BY)
            wait_until(lambda: _waits_for_advisory_lock(beside), what="the edit to wait for the dispatch")
            dispatching = pool.submit(bed.leader.dispatch_runs, lease, [release(run)], lease.now, 0)
            wait_until(lambda: _waits_for_advisory_lock(beside, 2), what="the next dispatch to wait for the edit")
            assert connection.execute(text("SELECT count(*) FROM control")).scalar_one() == 0
        assert pausing.result(60).pause is not None
        assert dispatching.result(60).outdated
    assert bed.runs.get(run.run_id).state is RunState.SCHEDULED


def _waits_for_advisory_lock(bed: StoreBed, sessions: int = 1) -> bool:
    assert bed.database is not None
    waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    with bed.database.read() as connection:
        return int(connection.execute(waiting).scalar_one()) >= sessions


def test_a_leader_that_knows_no_pauses_is_a_conflict(sql_stores: StoreBed) -> None:
    bed = sql_stores
    lease = bed.lead()
    assert bed.database is not None
    bed.queues.pause("mail", "why", None, by=BY)
    with bed.database.write() as connection:
        # What a takeover of the release before leaves: it does not know the column.
        connection.execute(text("UPDATE leases SET term = term + 1"))
    for edit in (
        lambda: bed.queues.pause("mail", "why", None, by=BY),
        lambda: bed.queues.resume("mail", by=BY),
        lambda: bed.queues.define("mail", lambda _: TO_CUSTOMERS, by=BY),
    ):
        with pytest.raises(Conflict, match="update every leader first"):
            edit()
    with bed.database.write() as connection:
        connection.execute(text("UPDATE leases SET resigned = true"))
    bed.queues.resume("mail", by=BY)
    assert version_of(bed) == 2
    assert lease.term == 1


def test_counts_of_a_queue(bed: StoreBed) -> None:
    lease = bed.lead()
    now = lease.now - MINUTE
    due = [one_off(now, queue="mail", priority=n % 10) for n in range(4)]
    bed.make(lease, *due, one_off(now + 2 * HOUR, queue="mail"), one_off(now, queue="other"))
    bed.leader.dispatch_runs(lease, [release(due[0])], lease.now)
    queue = bed.queues.get("mail")
    assert (queue.waiting, queue.waiting_more, queue.pending, queue.running) == (3, False, 1, 0)


def test_the_count_of_what_waits_ends_at_a_bound(bed: StoreBed) -> None:
    lease = bed.lead()
    bed.make(lease, *(one_off(lease.now - SECOND, queue="mail") for _ in range(MOST_WAITING + 1)))
    queue = bed.queues.get("mail")
    assert (queue.waiting, queue.waiting_more) == (MOST_WAITING, True)


def test_counts_of_more_runs_than_are_read_say_so(sql_stores: StoreBed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed, lease = sql_stores, sql_stores.lead()
    everything = Freeze(1, Scope(everything=True), lease.now, "why", "olga")
    bed.dispatched(lease, *(one_off(lease.now, queue="mail") for _ in range(3)))
    monkeypatch.setattr(sql_queues, "_MOST_TRACKED", 4)
    monkeypatch.setattr(sql_freezes, "_MOST_IN_FLIGHT", 4)
    seen, (counted,) = bed.queues.get("mail"), bed.freezes.counts([everything])
    assert (seen.pending, seen.in_flight_more, counted.pending, counted.more) == (3, False, 3, False)
    bed.dispatched(lease, *(one_off(lease.now, queue="mail") for _ in range(3)))
    seen, (counted,) = bed.queues.get("mail"), bed.freezes.counts([everything])
    assert (seen.pending, seen.in_flight_more, counted.pending, counted.more) == (5, True, 5, True)


def test_queues_are_listed_by_name_page_by_page(bed: StoreBed) -> None:
    lease = bed.lead()
    bed.make(lease, one_off(lease.now, queue="b"), one_off(lease.now + HOUR, queue="d"), one_off(lease.now, queue="c"))
    bed.queues.define("a", lambda _: TO_CUSTOMERS, by=BY)
    bed.queues.pause("d", "why", None, by=BY)
    first = bed.queues.list(3, None)
    assert [(queue.name, queue.defined) for queue in first.items] == [("a", True), ("b", False), ("c", False)]
    last = bed.queues.list(3, first.next_cursor, {"a", "bb", "e"})
    assert [(queue.name, queue.pause is not None) for queue in last.items] == [("d", True), ("e", False)]
    assert last.next_cursor is None


def test_a_poll_for_due_runs_leaves_out_paused_queues(bed: StoreBed) -> None:
    lease = bed.lead()
    mail, other = bed.make(lease, one_off(lease.now, queue="mail"), one_off(lease.now, queue="other"))
    assert {run.run_id for run in bed.leader.due_runs(lease.now + 1, 10)} == {mail.run_id, other.run_id}
    assert [run.run_id for run in bed.leader.due_runs(lease.now + 1, 10, ("mail",))] == [other.run_id]


def test_each_change_is_recorded_with_what_was_before(sql_stores: StoreBed) -> None:
    sql_stores.lead()
    assert sql_stores.database is not None
    sql_stores.queues.pause("mail", "why", None, by=BY)
    sql_stores.queues.pause("mail", "why", None, by=BY)
    sql_stores.queues.resume("mail", by=AuditedChange("otto", "operator", "queue.resume"))
    entries = SqlAuditLog(sql_stores.database).list(AuditFilter(subject="mail"), 10, None).items
    assert [(entry.action, entry.actor) for entry in entries] == [("queue.resume", "otto"), ("queue.pause", "olga")]
    assert entries[0].before["pause_reason"] == "why"
    assert entries[0].after["pause_reason"] is None
    assert entries[1].before is None
