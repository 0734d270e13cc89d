"""A commit whose reply is lost: unavailable, done nevertheless, and doing it again changes nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from itinerary.protocol.errors import Conflict, StoreUnavailable
from scheduler_service.core.leader.commands import Apply, CreateRuns, PublishedMark, Transition
from scheduler_service.core.run_state import Event, RunState
from tests.support.store_bed import StoreBed, a_job, occurrence, one_off, release


@contextmanager
def lost_reply(bed: StoreBed, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In the block the connection breaks after the database has committed and before it can say so."""

    def breaking(dialect: Any) -> Callable[[Any], None]:
        commit = dialect.do_commit

        def commit_and_break(connection: Any) -> None:
            commit(connection)
            raise dialect.dbapi.OperationalError("the connection broke")

        return commit_and_break

    with monkeypatch.context() as patch:
        for dialect in {database.engine.dialect for database in bed.by_role.values()}:
            patch.setattr(dialect, "do_commit", breaking(dialect))
        with pytest.raises(StoreUnavailable):
            yield


def test_planning_again_after_a_lost_reply_changes_nothing(
    sql_stores: StoreBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = sql_stores.lead()
    job = sql_stores.jobs.create(a_job())
    runs = (occurrence(job, lease.now), occurrence(job, lease.now + 1))
    batch = CreateRuns(runs, cursor=lease.now + 2, planned=(("job", 1),))
    with lost_reply(sql_stores, monkeypatch):
        sql_stores.leader.create_runs(lease, batch)
    assert sql_stores.leader.create_runs(lease, batch) == tuple(run.run_id for run in runs)
    assert len(sql_stores.leader.active_runs()) == 2
    assert sql_stores.leader.unplanned_jobs(1) == []


def test_a_move_whose_reply_was_lost_is_not_released_twice_and_can_be_read(
    sql_stores: StoreBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = sql_stores.lead()
    (run,) = sql_stores.make(lease, one_off(lease.now))
    with lost_reply(sql_stores, monkeypatch):
        sql_stores.leader.dispatch_runs(lease, [release(run, seq=7)], lease.now)
    assert sql_stores.leader.dispatch_runs(lease, [release(run, seq=8)], lease.now).refused == (run.run_id,)
    (kept,) = sql_stores.leader.read_runs([run.run_id])
    assert (kept.state, kept.seq, kept.published_at) == (RunState.PENDING, 7, None)


def test_applying_again_after_a_lost_reply_changes_nothing(
    sql_stores: StoreBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = sql_stores.lead()
    done, failed = sql_stores.dispatched(lease, one_off(lease.now), one_off(lease.now))
    batch = Apply(
        (
            Transition(done.run_id, 1, Event.SUCCEED, RunState.COMPLETED, lease.now, result=1),
            Transition(failed.run_id, 1, Event.FAIL, RunState.RETRYING, lease.now),
        ),
        published=(PublishedMark(failed.run_id, 1, lease.now),),
        position="3-0",
    )
    with lost_reply(sql_stores, monkeypatch):
        sql_stores.leader.apply(lease, batch)
    before = sql_stores.runs.get(done.run_id), sql_stores.runs.get(failed.run_id)
    assert sql_stores.leader.apply(lease, batch) == (done.run_id, failed.run_id)
    assert (sql_stores.runs.get(done.run_id), sql_stores.runs.get(failed.run_id)) == before
    assert len(before[1].attempts) == 1


def test_enqueueing_again_after_a_lost_reply_gives_the_run_that_was_made(
    sql_stores: StoreBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed, bare = one_off(1, idempotency_key="k", request_hash="h"), one_off(1)
    with lost_reply(sql_stores, monkeypatch):
        sql_stores.runs.enqueue([keyed])
    ((run, made),) = sql_stores.runs.enqueue([one_off(1, idempotency_key="k", request_hash="h")])
    assert (run.run_id, made) == (keyed.run_id, False)
    with lost_reply(sql_stores, monkeypatch):
        sql_stores.runs.enqueue([bare])
    with pytest.raises(Conflict):
        sql_stores.runs.enqueue([bare])
