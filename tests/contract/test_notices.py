"""Notices are committed with their facts, counted once, and become deliveries that each go to one process at a time."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import insert, select

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND
from scheduler_service.core.leader.commands import Apply, CreateRuns, Transition
from scheduler_service.core.leader.poll_state import Place
from scheduler_service.core.model import Lease, MissedRange, NewRun, Overlap
from scheduler_service.core.notifications.conditions import Pending
from scheduler_service.core.notifications.notices import TOPICS, Named, Notice, Topic, ready
from scheduler_service.core.notifications.routing import EVERYTHING, Route, addressed
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.ports.notices import Decide, Delivery
from scheduler_service.sql import outbox as sql_outbox
from scheduler_service.sql.conditions import SqlConditions
from scheduler_service.sql.leader.store import SqlLeaderStore
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.notice_tables import deliveries, notices
from scheduler_service.sql.outbox import SqlOutbox
from tests.contract.test_store_lost_reply import lost_reply
from tests.support.store_bed import StoreBed, a_job, occurrence, one_off, release


@pytest.fixture
def bed(sql_stores: StoreBed) -> StoreBed:
    """Stores whose leader tells of every topic."""
    database = sql_stores.by_role["leader"]
    return replace(sql_stores, leader=SqlLeaderStore(database, TOPICS), leases=SqlLeaseStore(database, TOPICS))


@pytest.fixture
def outbox(bed: StoreBed) -> SqlOutbox:
    return SqlOutbox(bed.by_role["leader"])


def rows(bed: StoreBed, table: Any = notices) -> list[Any]:
    assert bed.database is not None
    with bed.database.read() as connection:
        return list(connection.execute(select(table).order_by(*table.primary_key.columns)))


def told(bed: StoreBed) -> dict[tuple[str, str], int]:
    return {(row.topic, row.subject): row._mapping["count"] for row in rows(bed)}


def failure(run: NewRun, at: int, **more: Any) -> Transition:
    error = {"type": "ValueError", "message": "no such order\x00\ud800", "traceback": "..."}
    values: dict[str, Any] = {"reason": "it failed", "error": error, **more}
    return Transition(run.run_id, 1, Event.FAIL, RunState.FAILED, at, **values)


def started(run: NewRun, at: int) -> Transition:
    return Transition(run.run_id, 1, Event.START, RunState.RUNNING, at)


def new_ids() -> Any:
    numbers: Iterator[str] = map(str, range(1, 1000))
    return lambda: next(numbers)


def seal(outbox: SqlOutbox, *targets: str, quiet: int = HOUR) -> int:
    """Tell everything that may be told."""
    ids = new_ids()
    return outbox.seal(quiet, to_all(*targets or ("a",), quiet=quiet, ids=ids))


def to_all(*targets: str, quiet: int = HOUR, ids: Any) -> Decide:
    """What is ready, to these targets."""
    routes = dict.fromkeys(targets, EVERYTHING)
    return lambda w, labels, last, now: addressed(ready(w, last, now, quiet), labels, routes, now, ids)


def test_failures_are_counted_by_job_or_task_with_what_was_said_last(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    of_job = bed.dispatched(lease, *(occurrence(job, lease.now - n) for n in range(3)))
    (alone,) = bed.dispatched(lease, one_off(lease.now))
    bed.leader.apply(lease, Apply(tuple(failure(run, lease.now + n) for n, run in enumerate((*of_job, alone)))))
    assert told(bed) == {("run.failed", "job"): 3, ("run.failed", "task:pkg.task"): 1}
    kept = rows(bed)[0]
    assert (kept.first_at, kept.last_at) == (lease.now, lease.now + 2)
    assert kept.said["run_id"] == of_job[2].run_id
    assert kept.said["error"] == {"type": "ValueError", "message": "no such order\x00\ud800"}


def test_what_ends_well_or_is_tried_again_is_nothing_to_tell(bed: StoreBed) -> None:
    lease = bed.lead()
    good, again = bed.dispatched(lease, one_off(lease.now), one_off(lease.now))
    bed.leader.apply(
        lease,
        Apply(
            (
                Transition(good.run_id, 1, Event.SUCCEED, RunState.COMPLETED, lease.now),
                failure(again, lease.now)._replace(to=RunState.RETRYING, due_at=lease.now + HOUR),
            )
        ),
    )
    assert rows(bed) == []


def test_a_failure_is_counted_once_however_often_it_is_applied(bed: StoreBed, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    batch = Apply((started(run, lease.now), failure(run, lease.now, error={"type": "E", "message": "m"})))
    with lost_reply(bed, monkeypatch):
        bed.leader.apply(lease, batch)
    bed.leader.apply(lease, batch)
    assert told(bed) == {("run.failed", "task:pkg.task"): 1}


def test_a_failure_behind_a_start_that_came_twice_is_told(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    bed.leader.apply(lease, Apply((started(run, lease.now),)))
    refused = bed.leader.apply(lease, Apply((started(run, lease.now), failure(run, lease.now + 1))))
    assert refused == (run.run_id,)
    assert told(bed) == {("run.failed", "task:pkg.task"): 1}


def test_a_failure_that_was_refused_is_not_told(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    bed.leader.apply(lease, Apply((Transition(run.run_id, 1, Event.SUCCEED, RunState.COMPLETED, lease.now),)))
    bed.leader.apply(lease, Apply((failure(run, lease.now + 1),)))
    assert rows(bed) == []


def test_missed_occurrences_are_told_once_whether_they_had_rows_or_lie_in_a_gap(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    (run,) = bed.make(lease, occurrence(job, lease.now))
    bed.leader.apply(lease, Apply((Transition(run.run_id, 1, Event.MISS, RunState.MISSED, lease.now, reason="late"),)))
    missed_range = MissedRange("job", lease.now - HOUR, lease.now, 60, "misfire fire_once: later than 30s")
    for _ in range(2):
        bed.leader.create_runs(lease, CreateRuns((), cursor=lease.now, missed_ranges=(missed_range,)))
    longer = MissedRange("job", lease.now, lease.now + HOUR, 5, missed_range.reason)
    bed.leader.create_runs(lease, CreateRuns((), cursor=lease.now, missed_ranges=(longer,)))
    assert told(bed) == {("run.missed", "job"): 66}
    assert rows(bed)[0].said["reason"] == missed_range.reason


def test_an_occurrence_whose_row_is_refused_is_missed(bed: StoreBed) -> None:
    lease = bed.lead()
    bad = replace(occurrence(bed.planned_job(lease), lease.now), queue="\udc80")
    for _ in range(2):
        bed.leader.create_runs(lease, CreateRuns((bad,), cursor=lease.now))
    assert told(bed) == {("run.missed", "job"): 1}


def test_without_a_topic_nothing_is_written(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    (run,) = sql_stores.dispatched(lease, one_off(lease.now))
    sql_stores.leader.apply(lease, Apply((failure(run, lease.now, error=None),)))
    sql_stores.leader.create_runs(
        lease, CreateRuns((), cursor=lease.now, missed_ranges=(MissedRange("j", 0, 1, 1, "misfire"),))
    )
    assert rows(sql_stores) == []


def test_a_takeover_from_a_leader_that_did_not_resign_is_told_and_a_clean_one_is_not(bed: StoreBed) -> None:
    lease = bed.lead()
    bed.leases.resign(lease)
    second = bed.leases.acquire(0, "second", SECOND)
    assert second is not None
    assert rows(bed) == []
    view = bed.leases.peek(0)
    third = bed.leases.acquire(0, "third", SECOND, stalled=view)
    assert third is not None
    (kept,) = rows(bed)
    assert (kept.topic, kept.subject) == ("leader.lost", "leader")
    assert (kept.said["term"], kept.said["holder"]) == (2, "second")
    assert kept.said["followed_by"] == {"term": 3, "holder": "third"}


def test_a_condition_is_told_once_while_it_holds_and_again_when_it_comes_back(bed: StoreBed, outbox: SqlOutbox) -> None:
    found = [Notice(Topic.RUN_LATE, subject, 2, 1, 2, {"job_id": subject}) for subject in ("a", "b")]
    for _ in range(3):
        outbox.hold(Topic.RUN_LATE, found)
    assert told(bed) == {("run.late", "a"): 2, ("run.late", "b"): 2}
    assert seal(outbox) == 1
    outbox.hold(Topic.RUN_LATE, found[:1])
    outbox.hold(Topic.RUN_LATE, found)
    assert told(bed) == {("run.late", "a"): 0, ("run.late", "b"): 2}


def test_what_began_and_ended_before_it_might_be_told_is_told_as_over(bed: StoreBed, outbox: SqlOutbox) -> None:
    found = [Notice(Topic.RUN_LATE, subject, 2, 1, 2, {"job_id": subject}) for subject in ("a", "b")]
    for held in (found, [], found[:1], []):  # in the quiet time
        outbox.hold(Topic.RUN_LATE, held)
    outbox.hold(Topic.RUN_LATE, [replace(found[1], count=5, first_at=7, last_at=8)])
    assert seal(outbox) == 1
    (sent,) = rows(bed, deliveries)
    body = json.loads(sent.body)
    assert body["text"] == "5 runs are due and have not started; 2 runs were late and are not any more (b, a)"
    assert [(item["job_id"], item["count"], item.get("over")) for item in body["data"]["items"]] == [
        ("b", 5, None),
        ("a", 2, True),
    ]


def test_what_happens_is_never_over(bed: StoreBed, outbox: SqlOutbox) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    bed.leader.apply(lease, Apply((failure(run, lease.now),)))
    assert seal(outbox) == 1
    assert "over" not in json.loads(rows(bed, deliveries)[0].body)["data"]["items"][0]


def test_a_look_at_a_part_says_nothing_of_the_rest(
    bed: StoreBed, outbox: SqlOutbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_outbox, "_AT_ONCE", 1)
    found = {subject: Notice(Topic.JOB_ENDED, subject, 1, 1, 1, {}) for subject in "abcd"}
    outbox.hold(Topic.JOB_ENDED, list(found.values()))
    outbox.hold(Topic.JOB_ENDED, [], "a", "c")
    assert {row.subject for row in rows(bed) if row.holds} == {"a", "d"}
    outbox.hold(Topic.JOB_ENDED, [], "c", None)
    assert {row.subject for row in rows(bed) if row.holds} == {"a"}


def test_a_storm_is_one_message_and_then_one_with_a_count_after_the_quiet_time(
    bed: StoreBed, outbox: SqlOutbox
) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    runs = bed.dispatched(lease, *(occurrence(job, lease.now - n) for n in range(21)))
    for number, run in enumerate(runs):
        bed.leader.apply(lease, Apply((failure(run, lease.now),)))
        assert seal(outbox) == (number == 0)
    assert told(bed) == {("run.failed", "job"): 20}
    # The quiet time over, for subject and topic alike.
    assert bed.database is not None
    with bed.database.write() as connection:
        connection.execute(notices.update().values(told_at=outbox.now() - HOUR))
    ids = iter(["later"])
    assert outbox.seal(HOUR, to_all("a", ids=lambda: next(ids))) == 1
    assert told(bed) == {("run.failed", "job"): 0}
    assert sorted(row.message_id for row in rows(bed, deliveries)) == ["1", "later"]


def test_a_route_goes_by_the_jobs_queue_and_tags_and_what_nobody_wants_is_over(
    bed: StoreBed, outbox: SqlOutbox
) -> None:
    for job_id, queue, tags in (("night", "bulk", ["billing"]), ("day", "default", [])):
        bed.jobs.create(a_job(job_id, queue=queue, tags=tags))
    found = [Notice(Topic.JOB_ENDED, job_id, 1, 1, 1, {"job_id": job_id}) for job_id in ("night", "day", "gone")]
    outbox.hold(Topic.JOB_ENDED, found)
    routes = {"tag": Route(tags=("bill*",)), "queue": Route(queues=("bulk",)), "job": Route(jobs=("night",))}
    ids = new_ids()
    decide: Decide = lambda w, labels, last, now: addressed(ready(w, last, now, HOUR), labels, routes, now, ids)  # noqa: E731
    assert outbox.seal(HOUR, decide, labelled=True) == 1
    assert {row.target for row in rows(bed, deliveries)} == {"tag", "queue", "job"}
    (body,) = {row.body for row in rows(bed, deliveries)}
    assert [item["job_id"] for item in json.loads(body)["data"]["items"]] == ["night"]
    assert told(bed) == {("job.no_next_run", job_id): 0 for job_id in ("night", "day", "gone")}
    # Nobody was told of `day`: it mutes nothing, and is forgotten once it is over.
    assert {row.subject for row in rows(bed) if row.told_at is not None} == {"night"}
    outbox.hold(Topic.JOB_ENDED, [])
    outbox.tidy(HOUR)
    assert [row.subject for row in rows(bed)] == ["night"]


def claimed(outbox: SqlOutbox, *targets: str) -> Delivery:
    """The next delivery to these."""
    delivery = outbox.claim(targets, MINUTE)
    assert delivery is not None
    return delivery


def a_message(outbox: SqlOutbox, *targets: str) -> None:
    outbox.hold(Topic.LEADER_ABSENT, [Notice(Topic.LEADER_ABSENT, "leader", 1, 1, 1, {})])
    assert seal(outbox, *targets) == 1


def test_a_clock_that_ran_ahead_mutes_nothing(bed: StoreBed, outbox: SqlOutbox) -> None:
    a_message(outbox, "a")
    outbox.failed(claimed(outbox, "a"), "HTTP 500", outbox.now() + HOUR - SECOND)
    assert outbox.claim(["a"], MINUTE) is None
    assert bed.database is not None
    with bed.database.write() as connection:
        connection.execute(deliveries.update().values(next_at=outbox.now() + DAY))
        connection.execute(notices.update().values(told_at=outbox.now() + DAY))
    assert claimed(outbox, "a").attempts == 2
    outbox.hold(Topic.LEADER_ABSENT, [])
    others = [Notice(Topic.LEADER_ABSENT, name, 1, 1, 1, {}) for name in ("leader", "other")]
    for found, sealed in ((others[:1], 1), (others, 0)):
        outbox.hold(Topic.LEADER_ABSENT, found)
        ids = iter([f"again-{sealed}"])
        assert outbox.seal(HOUR, to_all("a", ids=partial(next, ids))) == sealed


def test_what_a_newer_release_noted_waits_for_it_and_holds_up_nothing(bed: StoreBed, outbox: SqlOutbox) -> None:
    lease = bed.lead()
    bed.leader.apply(lease, Apply((failure(bed.dispatched(lease, one_off(lease.now))[0], lease.now),)))
    newer = {"topic": "of.newer", "told_at": lease.now - MINUTE}
    message = {"message_id": "0", "target": "a", "topic": "of.newer", "body": "{}", "state": "waiting", "attempts": 0}
    with bed.by_role["leader"].write() as connection:
        mine = connection.execute(select(notices)).mappings().one()
        connection.execute(insert(notices).values(**{**mine, **newer}))
        connection.execute(insert(deliveries).values(**message, made_at=lease.now, next_at=lease.now - DAY))
    assert seal(outbox) == 1
    delivery = outbox.claim(["a"], MINUTE)
    assert delivery is not None
    assert delivery.topic is Topic.RUN_FAILED


def test_each_target_gets_its_own_delivery_with_the_same_id_and_body(bed: StoreBed, outbox: SqlOutbox) -> None:
    a_message(outbox, "a", "b")
    of_a, of_b = claimed(outbox, "a", "c"), claimed(outbox, "a", "b")
    assert (of_a.message_id, of_a.target, of_a.attempts) == ("1", "a", 1)
    assert (of_b.message_id, of_b.target, of_b.body) == ("1", "b", of_a.body)
    outbox.sent(of_a)
    outbox.failed(of_b, "HTTP 500\x00", outbox.now() - 1)
    again = claimed(outbox, "a", "b")
    assert (again.target, again.attempts, again.body) == ("b", 2, of_b.body)
    backlog = outbox.backlog()
    assert (backlog.waiting, backlog.dead, backlog.last_failed) == (1, 0, "b: HTTP 500\ufffd")
    outbox.failed(again, "gone", None)
    backlog = outbox.backlog()
    assert (backlog.waiting, backlog.dead, backlog.last_dead) == (0, 1, "b: gone")


def test_a_claimed_delivery_is_nobody_elses_until_the_claim_ends(bed: StoreBed, outbox: SqlOutbox) -> None:
    other = SqlOutbox(bed.beside().by_role["api"])
    a_message(outbox, "a")
    mine = claimed(outbox, "a")
    assert other.claim(["a"], MINUTE) is None
    # We die here: the claim ends by itself. What the dead one still says then changes nothing.
    assert bed.database is not None
    with bed.database.write() as connection:
        connection.execute(deliveries.update().values(next_at=outbox.now()))
    taken = claimed(other, "a")
    outbox.failed(mine, "too late", None)
    assert outbox.backlog().waiting == 1
    other.sent(taken)
    assert outbox.backlog().waiting == 0


def test_two_processes_never_tell_the_same_notices(bed: StoreBed, outbox: SqlOutbox) -> None:
    other = SqlOutbox(bed.beside().by_role["api"])
    for box in (outbox, other):
        box.hold(Topic.LEADER_ABSENT, [Notice(Topic.LEADER_ABSENT, "leader", 1, 1, 1, {})])
    assert seal(outbox) + seal(other) == 1
    assert len(rows(bed, deliveries)) == 1


def test_what_nobody_tries_for_a_day_is_given_up_and_can_be_tried_again(bed: StoreBed, outbox: SqlOutbox) -> None:
    a_message(outbox, "gone")
    outbox.tidy(HOUR)
    assert outbox.backlog().waiting == 1
    assert bed.database is not None
    long_ago = outbox.now() - DAY - HOUR - SECOND
    with bed.database.write() as connection:
        connection.execute(deliveries.update().values(made_at=long_ago, next_at=long_ago))
    outbox.tidy(HOUR)
    assert (outbox.backlog().waiting, outbox.backlog().last_dead) == (0, "gone: nobody tried")
    assert outbox.retry_dead() == 1
    assert claimed(outbox, "gone").attempts == 1


def test_what_was_sent_and_told_long_ago_is_forgotten(bed: StoreBed, outbox: SqlOutbox) -> None:
    a_message(outbox, "a")
    outbox.sent(claimed(outbox, "a"))
    outbox.hold(Topic.LEADER_ABSENT, [])
    outbox.tidy(HOUR)
    assert len(rows(bed)) == len(rows(bed, deliveries)) == 1
    assert bed.database is not None
    long_ago = outbox.now() - DAY - 1
    with bed.database.write() as connection:
        connection.execute(deliveries.update().values(ended_at=long_ago))
        connection.execute(notices.update().values(told_at=long_ago))
    outbox.tidy(HOUR)
    assert rows(bed) == rows(bed, deliveries) == []


def test_what_was_asked_for_to_wait_its_turn_is_late_only_from_its_release_on(bed: StoreBed) -> None:
    lease = bed.lead()
    assert bed.database is not None
    conditions = SqlConditions(bed.database)
    in_turn = one_off(lease.now - HOUR, overlap=Overlap.QUEUE_ALL)
    bed.make(lease, in_turn)
    assert conditions.waiting(lease.now, 10, None) == ([], None)
    assert not bed.leader.dispatch_runs(lease, [release(in_turn)], lease.now).refused
    assert conditions.in_flight(lease.now, 10, None) == ([], None)
    out, _ = conditions.in_flight(lease.now + 1, 10, None)
    assert out == [Pending(Named(in_turn.run_id, None, "pkg.task", "default"), lease.now)]


def test_a_look_finds_due_runs_that_wait_or_are_out_and_running_ones(bed: StoreBed) -> None:
    lease = bed.lead()
    assert bed.database is not None
    conditions = SqlConditions(bed.database)
    job = bed.planned_job(lease)
    waits, _ = bed.make(lease, occurrence(job, lease.now - HOUR), one_off(lease.now + HOUR))
    sent, running = bed.dispatched(lease, one_off(lease.now - MINUTE), one_off(lease.now - HOUR, timeout=9 * SECOND))
    bed.leader.apply(lease, Apply((started(running, lease.now - MINUTE),)))
    waiting, end = conditions.waiting(lease.now, 10, None)
    assert (waiting, end) == ([Pending(Named(waits.run_id, "job", "pkg.task", "default"), waits.due_at)], None)
    out, end = conditions.in_flight(lease.now, 10, None)
    assert (out, end) == ([Pending(Named(sent.run_id, None, "pkg.task", "default"), sent.due_at)], None)
    ((one,), end) = conditions.running(10, None)
    assert (one.run.run_id, one.started_at, one.timeout) == (running.run_id, lease.now - MINUTE, 9 * SECOND)
    assert end is None


def test_runs_are_looked_through_by_pages(bed: StoreBed) -> None:
    lease = bed.lead()
    assert bed.database is not None
    conditions = SqlConditions(bed.database)
    waits = bed.make(lease, *(one_off(lease.now - n * SECOND) for n in (3, 2, 2)))
    sent = bed.dispatched(lease, *(one_off(lease.now - n * SECOND) for n in (9, 8, 8)))
    runs = bed.dispatched(lease, *(one_off(lease.now - HOUR) for _ in range(3)))
    bed.leader.apply(lease, Apply(tuple(started(run, lease.now - MINUTE) for run in runs)))

    def walk(look: Callable[[Place | None], tuple[list[Any], Place | None]]) -> list[str]:
        found, after = look(None)
        while after is not None:
            page, after = look(after)
            assert len(page) == 1 or after is None
            found += page
        return [one.run.run_id for one in found]

    assert sorted(walk(lambda after: conditions.waiting(lease.now, 1, after))) == sorted(run.run_id for run in waits)
    assert sorted(walk(lambda after: conditions.in_flight(lease.now, 1, after))) == sorted(run.run_id for run in sent)
    assert sorted(walk(lambda after: conditions.running(1, after))) == sorted(run.run_id for run in runs)


def test_jobs_are_looked_through_by_pages_and_only_those_that_could_end_are_parsed(bed: StoreBed) -> None:
    lease = bed.lead()
    assert bed.database is not None
    conditions = SqlConditions(bed.database)
    once = {"kind": "once", "at": "2020-01-01T00:00:00Z"}
    for job_id, fields in (("a", {}), ("b", {"schedule": once}), ("c", {"end_at": "2027-01-01T00:00:00Z"})):
        bed.jobs.create(a_job(job_id, **fields))
    bed.jobs.create(a_job("d", schedule=once))
    bed.jobs.delete("d", None)
    first = conditions.jobs(None, 2)
    assert ([job.job_id for job in first.jobs], first.after, first.until) == (["b"], None, "b")
    rest = conditions.jobs(first.until, 2)
    assert ([job.job_id for job in rest.jobs], rest.after, rest.until) == (["c"], "b", None)
    assert lease.term == 1


def test_a_pause_holds_nothing_back_once_its_time_has_passed(bed: StoreBed) -> None:
    lease = bed.lead()
    assert bed.database is not None
    conditions = SqlConditions(bed.database)
    job = bed.planned_job(lease, schedule={"kind": "once", "at": "2020-01-01T00:00:00Z"})
    (waits,) = bed.make(lease, occurrence(job, lease.now - HOUR))
    for until, late in ((lease.now + DAY, False), (lease.now - SECOND, True)):
        bed.jobs.set_paused(job.job_id, True, "an incident", until)
        assert [one.run.run_id for one in conditions.waiting(lease.now, 10, None)[0]] == [waits.run_id] * late
        assert [(one.job_id, one.paused) for one in conditions.jobs(None, 9).jobs] == [(job.job_id, False)] * late


def test_a_notice_is_gone_with_its_fact_where_the_lease_is_over(bed: StoreBed) -> None:
    lease: Lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    bed.take_over(lease)
    with pytest.raises(LeaseLost):
        bed.leader.apply(lease, Apply((failure(run, lease.now, error=None),)))
    assert rows(bed) == []
