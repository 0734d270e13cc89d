"""FreezeStore, what a leader reads of freezes, and the lock between an end of one and what is judged by it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import text

from itinerary.protocol.errors import Conflict, NotFound
from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.pruning import Past, horizon_of
from scheduler_service.core.freezes import FREEZES_A_DAY, During, Freeze, FreezeCounts, FreezeStatus, NewFreeze, Scope
from scheduler_service.ports.records import AuditFilter
from scheduler_service.sql.audit import SqlAuditLog
from scheduler_service.sql.controls import editing
from scheduler_service.sql.pruning import SqlPruning
from tests.support.past_freezes import fill_with_past
from tests.support.processes import wait_until
from tests.support.store_bed import StoreBed, occurrence, one_off, release

BY = AuditedChange("olga", "operator", "freeze.start")
END = AuditedChange("otto", "operator", "freeze.end")
EVERYTHING = Scope(everything=True)
PARTS = Scope(queues=frozenset({"mail", "sms"}), tags=frozenset({"a\nb"}), jobs=frozenset({"job"}))


def test_a_freeze_holds_from_its_creation_and_each_edit_raises_the_version(bed: StoreBed) -> None:
    lease = bed.lead()
    freeze = bed.freezes.start(NewFreeze(PARTS, "a deploy", During.SKIP, until=lease.now + HOUR), by=BY)
    assert lease.now <= freeze.since == freeze.created_at
    expected = Freeze(
        freeze.freeze_id, PARTS, freeze.since, "a deploy", "olga", During.SKIP, lease.now + HOUR, freeze.since
    )
    assert freeze == expected == bed.freezes.get(freeze.freeze_id)
    controls = bed.leader.controls(0)
    assert controls is not None
    assert (controls.version, controls.freezes) == (1, (freeze,))
    ended = bed.freezes.end(freeze.freeze_id, by=END)
    assert (ended.ended_by, ended.end) == ("otto", ended.ended_at)
    assert ended == bed.freezes.get(freeze.freeze_id) == bed.freezes.end(freeze.freeze_id, by=BY)
    controls = bed.leader.controls(1)
    assert controls is not None
    assert (controls.version, controls.freezes) == (2, (ended,))
    later = bed.leader.controls(1, since=ended.end or 0)
    assert later is not None
    assert later.freezes == ()


def test_a_freeze_does_not_reach_back(bed: StoreBed) -> None:
    lease = bed.lead()
    assert bed.freezes.start(NewFreeze(EVERYTHING, "why", since=lease.now - HOUR), by=BY).since >= lease.now


def test_asking_again_changes_nothing(bed: StoreBed) -> None:
    lease = bed.lead()
    asked = NewFreeze(EVERYTHING, "a deploy")
    coming = replace(asked, since=lease.now + HOUR)
    first, later = bed.freezes.start(asked, by=BY), bed.freezes.start(coming, by=BY)
    assert (bed.freezes.start(asked, by=BY), bed.freezes.start(coming, by=BY)) == (first, later)
    assert bed.freezes.start(replace(asked, reason="another"), by=BY).freeze_id not in (
        first.freeze_id,
        later.freeze_id,
    )
    bed.freezes.end(first.freeze_id, by=END)
    assert bed.freezes.start(asked, by=BY).freeze_id != first.freeze_id


def test_freezes_are_listed_newest_first_by_their_state(bed: StoreBed) -> None:
    lease = bed.lead()
    past, active, coming, never = (
        bed.freezes.start(NewFreeze(EVERYTHING, reason, since=since), by=BY).freeze_id
        for reason, since in (
            ("past", None),
            ("active", None),
            ("coming", lease.now + HOUR),
            ("never", lease.now + HOUR),
        )
    )
    bed.freezes.end(past, by=END)
    bed.freezes.end(never, by=END)
    listed = {
        state: [one.freeze_id for one in bed.freezes.list(state, 10, None).items] for state in (None, *FreezeStatus)
    }
    assert listed == {
        None: [never, coming, active, past],
        FreezeStatus.ACTIVE: [active],
        FreezeStatus.COMING: [coming],
        FreezeStatus.PAST: [never, past],
    }
    first = bed.freezes.list(None, 3, None)
    second = bed.freezes.list(None, 3, first.next_cursor)
    assert [one.freeze_id for one in (*first.items, *second.items)] == listed[None]
    assert second.next_cursor is None


def test_an_unknown_freeze_is_not_found(bed: StoreBed) -> None:
    bed.lead()
    for call in (lambda: bed.freezes.get(4711), lambda: bed.freezes.end(4711, by=END)):
        with pytest.raises(NotFound, match="4711"):
            call()


def test_too_many_freezes_at_once_are_refused(bed: StoreBed) -> None:
    bed.lead()
    for number in range(100):
        bed.freezes.start(NewFreeze(EVERYTHING, f"{number}"), by=BY)
    with pytest.raises(Conflict, match="100 freezes"):
        bed.freezes.start(NewFreeze(EVERYTHING, "one more"), by=BY)


def test_no_more_freezes_a_day_than_a_leader_may_have_to_judge_by(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    fill_with_past(sql_stores, 600, lease.now - DAY - SECOND)  # what ended before is not counted
    fill_with_past(sql_stores, FREEZES_A_DAY - 1, lease.now - MINUTE)
    asked = NewFreeze(EVERYTHING, "the last one")
    last = sql_stores.freezes.start(asked, by=BY)
    with pytest.raises(Conflict, match="1,000 freezes held within a day"):
        sql_stores.freezes.start(replace(asked, reason="one more"), by=BY)
    assert sql_stores.freezes.start(asked, by=BY) == last


def test_a_dispatch_that_was_chosen_before_a_freeze_or_its_end_moves_nothing(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.make(lease, one_off(lease.now))
    freeze = bed.freezes.start(NewFreeze(Scope(jobs=frozenset({"job"})), "why"), by=BY)
    assert bed.leader.dispatch_runs(lease, [release(run)], lease.now).outdated
    bed.freezes.end(freeze.freeze_id, by=END)
    assert bed.leader.dispatch_runs(lease, [release(run)], lease.now, 1).outdated
    assert not bed.leader.dispatch_runs(lease, [release(run)], lease.now, 2).outdated


def test_counts_of_what_is_in_flight_in_each_scope(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease, "job", tags=["a\nb"])
    mail, sms, other = (one_off(lease.now, queue=queue) for queue in ("mail", "sms", "other"))
    forced = one_off(lease.now, queue="mail", forced=True)
    bed.dispatched(lease, mail, sms, other, forced, occurrence(job, lease.now))
    scopes = (EVERYTHING, PARTS, Scope(tags=frozenset({"a\nb"})), Scope(jobs=frozenset({"none"})))
    freezes = [bed.freezes.start(NewFreeze(scope, "why"), by=BY) for scope in scopes]
    assert [one.pending for one in bed.freezes.counts(freezes)] == [4, 3, 1, 0]
    assert not bed.freezes.counts(())
    assert bed.freezes.counts(freezes[3:]) == [FreezeCounts(0, 0)]


def test_a_forced_run_is_read_as_one(bed: StoreBed) -> None:
    lease = bed.lead()
    forced, other = bed.make(lease, one_off(lease.now, forced=True), one_off(lease.now))
    read = {run.run_id: run.forced for run in bed.leader.read_runs([forced.run_id, other.run_id])}
    assert read == {forced.run_id: True, other.run_id: False}


def test_the_time_up_to_which_the_edits_are_known(bed: StoreBed) -> None:
    lease = bed.lead()
    at = bed.leader.unchanged_at(0)
    assert at is not None
    assert at >= lease.now
    freeze = bed.freezes.start(NewFreeze(EVERYTHING, "why"), by=BY)
    assert freeze.since >= at
    assert bed.leader.unchanged_at(0) is None
    assert bed.leader.unchanged_at(1) is not None


@pytest.mark.slow
def test_that_time_waits_for_an_edit_under_way(sql_stores: StoreBed) -> None:
    """Else an end dated before it would be committed after it, and what fell due between would be skipped."""
    bed, beside = sql_stores, sql_stores.beside()
    bed.lead()
    assert bed.database is not None
    freeze = bed.freezes.start(NewFreeze(EVERYTHING, "why", During.SKIP), by=BY)
    with ThreadPoolExecutor(1) as pool:
        with editing(bed.database) as connection:
            now = bed.database.read_clock(connection)
            asking = pool.submit(beside.leader.unchanged_at, 1)
            connection.execute(text("UPDATE control SET version = 2"))
            if bed.kind != "sqlite":
                wait_until(lambda: _waits(bed), what="the question to wait for the edit")
        assert asking.result(60) is None
    assert freeze.since <= now


def _waits(bed: StoreBed) -> bool:
    assert bed.database is not None
    with bed.database.read() as connection:
        waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        return bool(connection.execute(waiting).scalar_one())


def test_each_change_is_recorded_with_what_was_before(sql_stores: StoreBed) -> None:
    sql_stores.lead()
    assert sql_stores.database is not None
    freeze = sql_stores.freezes.start(NewFreeze(PARTS, "why"), by=BY)
    sql_stores.freezes.end(freeze.freeze_id, by=END)
    wanted = AuditFilter(subject=f"freeze {freeze.freeze_id}")
    ended, started = SqlAuditLog(sql_stores.database).list(wanted, 10, None).items
    assert [(entry.action, entry.actor) for entry in (started, ended)] == [
        ("freeze.start", "olga"),
        ("freeze.end", "otto"),
    ]
    assert started.before is None
    assert started.after["scope"] == {"jobs": ["job"], "queues": ["mail", "sms"], "tags": ["a\nb"]}
    assert (ended.before["ended_at"], ended.after["ended_by"]) == (None, "otto")


def test_a_freeze_is_pruned_once_no_run_can_be_judged_by_it(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    assert sql_stores.database is not None
    old, lasts = (
        sql_stores.freezes.start(NewFreeze(EVERYTHING, reason), by=BY).freeze_id for reason in ("old", "lasts")
    )
    sql_stores.freezes.end(old, by=END)
    pruning, kept = SqlPruning(sql_stores.database), DAY
    assert horizon_of(Past.FREEZES, lease.now + 2 * kept, kept) == lease.now + kept
    assert pruning.scan(Past.FREEZES, lease.now - SECOND, None, 10).may_go == ()
    assert pruning.scan(Past.FREEZES, lease.now + kept, None, 10).may_go == (old,)
    assert pruning.prune(lease, Past.FREEZES, (old, lasts), lease.now + kept) == 1
    assert [one.freeze_id for one in sql_stores.freezes.list(None, 10, None).items] == [lasts]
