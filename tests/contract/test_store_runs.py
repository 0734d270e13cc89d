"""RunStore: what is enqueued is there once, lists are stable, and a cancel request is never lost."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from itinerary.protocol.errors import BadValue, Conflict, NotFound, RowRefused
from itinerary.protocol.instants import DAY, MINUTE, SECOND
from itinerary.protocol.limits import LimitUse
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.core.leader.commands import Apply, Transition
from scheduler_service.core.model import NewRun, RunKind
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.ports.stores import RunFilter
from scheduler_service.sql.paging import write_cursor
from tests.support.limits import define
from tests.support.store_bed import StoreBed, occurrence, one_off, release

AT = 1_900_000_000 * SECOND


def keyed(key: str, body: str = "body") -> NewRun:
    return one_off(AT, idempotency_key=key, request_hash=body)


def test_an_enqueued_run_is_kept_as_it_was_given(bed: StoreBed) -> None:
    given = one_off(
        AT, args=[1, "é"], kwargs={"a": 1e16, "b": None}, queue="q", priority=9, timeout=SECOND,
        retry=RetryPolicy(max_attempts=2, initial=1, factor=2.5, max=DAY, jitter=False), retry_of="another",
    )  # fmt: skip
    ((run, made),) = bed.runs.enqueue([given])
    assert made
    assert (run.run_id, run.kind, run.task, run.args, run.kwargs) == (
        given.run_id, RunKind.ADHOC, "pkg.task", [1, "é"], {"a": 1e16, "b": None},
    )  # fmt: skip
    assert (run.queue, run.priority, run.timeout, run.retry, run.retry_of) == ("q", 9, SECOND, given.retry, "another")
    assert (run.scheduled_at, run.due_at, run.state, run.attempt) == (AT, AT, RunState.SCHEDULED, 1)
    assert (run.job_id, run.result, run.error, run.attempts, run.worker) == (None, None, None, (), None)
    assert bed.runs.get(run.run_id) == run


def test_a_run_without_a_time_is_due_now_by_the_databases_clock(bed: StoreBed) -> None:
    lease = bed.lead()
    ((run, _),) = bed.runs.enqueue([one_off(0)])
    assert lease.now <= run.due_at == run.scheduled_at < lease.now + MINUTE
    assert [due.run_id for due in bed.leader.due_runs(lease.now + MINUTE, 10)] == [run.run_id]


def test_a_batch_comes_back_in_its_order(bed: StoreBed) -> None:
    batch = [one_off(AT, idempotency_key=f"k{n % 7}-{n}", request_hash="h") for n in range(50)]
    assert [run.run_id for run, _ in bed.runs.enqueue(batch)] == [run.run_id for run in batch]
    assert bed.runs.enqueue([]) == []


def test_the_same_key_and_request_give_the_run_that_is_there(bed: StoreBed) -> None:
    ((first, _),) = bed.runs.enqueue([keyed("k")])
    (again, other) = bed.runs.enqueue([keyed("k"), keyed("l")])
    assert again == (first, False)
    assert other[1]


def test_a_key_twice_in_one_batch_is_one_run(bed: StoreBed) -> None:
    (first, second) = bed.runs.enqueue([keyed("k"), keyed("k")])
    assert (first[1], second[1]) == (True, False)
    assert first[0] == second[0]


def test_the_same_key_for_another_request_is_a_conflict_and_nothing_of_the_batch_is_made(bed: StoreBed) -> None:
    bed.runs.enqueue([keyed("k")])
    fresh = one_off(AT)
    with pytest.raises(Conflict):
        bed.runs.enqueue([fresh, keyed("k", "another body")])
    with pytest.raises(NotFound):
        bed.runs.get(fresh.run_id)


def test_an_id_that_is_taken_is_a_conflict(bed: StoreBed) -> None:
    run = one_off(AT)
    bed.runs.enqueue([run])
    with pytest.raises(Conflict):
        bed.runs.enqueue([run])


def test_a_batch_with_a_row_that_cannot_be_stored_is_refused_whole(bed: StoreBed) -> None:
    good = one_off(AT)
    for bad in (one_off(AT, queue="\udc80"), one_off(AT, queue="q\x00"), one_off(2**60), one_off(-(2**60))):
        with pytest.raises(RowRefused):
            bed.runs.enqueue([good, bad])
    with pytest.raises(NotFound):
        bed.runs.get(good.run_id)


def test_many_who_enqueue_the_same_keys_at_once_make_each_run_once(bed: StoreBed) -> None:
    beds = [bed.beside() for _ in range(6)]
    together = threading.Barrier(len(beds))
    keys = [f"key-{n}" for n in range(20)]

    def enqueue(number: int) -> dict[str, tuple[str, bool]]:
        together.wait(60)
        mine = keys if number % 2 else list(reversed(keys))
        enqueued = beds[number].runs.enqueue([keyed(key) for key in mine])
        return {key: (run.run_id, made) for key, (run, made) in zip(mine, enqueued, strict=True)}

    with ThreadPoolExecutor(len(beds)) as pool:
        answers = list(pool.map(enqueue, range(len(beds))))
    for key in keys:
        assert len({answer[key][0] for answer in answers}) == 1
        assert [answer[key][1] for answer in answers].count(True) == 1


def test_a_run_that_is_not_there_is_not_found(bed: StoreBed) -> None:
    for name in ("nobody", "no\x00body", "no\udc80body"):
        with pytest.raises(NotFound):
            bed.runs.get(name)
        with pytest.raises(NotFound):
            bed.runs.request_cancel(name)


def test_the_list_is_newest_first_in_pages_that_neither_repeat_nor_miss(bed: StoreBed) -> None:
    runs = [one_off(AT + n // 3) for n in range(20)]
    bed.runs.enqueue(runs)
    shown: list[str] = []
    cursor = None
    while True:
        page = bed.runs.list(RunFilter(), 7, cursor)
        shown += [run.run_id for run in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
        bed.runs.enqueue([one_off(AT + DAY)])
    assert shown == [run.run_id for run in reversed(runs)]


@pytest.mark.parametrize("key", [[2**80, 1], [1, 2**70], ["1", 1], [True, 1], [1], "x"])
def test_a_cursor_that_no_page_gave_is_refused(bed: StoreBed, key: list[object]) -> None:
    with pytest.raises(BadValue):
        bed.runs.list(RunFilter(), 10, write_cursor(key))


def test_the_list_is_filtered_by_job_state_queue_and_time(bed: StoreBed) -> None:
    lease = bed.lead()
    job = bed.planned_job(lease)
    mine, other, slow = occurrence(job, lease.now), one_off(lease.now + 1), one_off(lease.now + 2, queue="slow")
    bed.make(lease, mine, other, slow)
    bed.runs.request_cancel(other.run_id)

    def found(**wanted: object) -> list[str]:
        return [run.run_id for run in bed.runs.list(RunFilter(**wanted), 10, None).items]  # type: ignore[arg-type]

    assert found(job_id="job") == [mine.run_id]
    assert found(states=(RunState.SCHEDULED,)) == [slow.run_id, mine.run_id]
    assert found(states=(RunState.CANCELLED, RunState.SCHEDULED)) == [slow.run_id, other.run_id, mine.run_id]
    assert found(states=(RunState.CANCELLED, RunState.CANCELLED)) == [other.run_id]
    assert found(queue="slow") == [slow.run_id]
    assert found(since=lease.now + 1) == [slow.run_id, other.run_id]
    assert found(until=lease.now + 1) == [mine.run_id]
    assert found(since=lease.now, until=lease.now + 2, queue="default", job_id="job") == [mine.run_id]
    assert found(job_id="nobody") == found(queue="q\x00") == found(job_id="\udc80") == []


@pytest.mark.parametrize("state", ["scheduled", "retrying"])
def test_a_waiting_run_is_cancelled_at_once_and_never_released(bed: StoreBed, state: str) -> None:
    lease = bed.lead()
    run = one_off(lease.now)
    attempt = 1
    if state == "scheduled":
        bed.make(lease, run)
    else:
        bed.dispatched(lease, run)
        again = Transition(run.run_id, 1, Event.FAIL, RunState.RETRYING, lease.now, due_at=lease.now)
        bed.leader.apply(lease, Apply((again,)))
        attempt = 2
    cancelled = bed.runs.request_cancel(run.run_id)
    assert cancelled.state is RunState.CANCELLED
    assert cancelled.finished_at == cancelled.cancel_requested_at is not None
    assert cancelled.reason == "cancelled on request, before it was released"
    assert bed.leader.dispatch_runs(lease, [release(run, attempt)], lease.now).refused == (run.run_id,)


def test_the_cancel_of_a_run_that_is_out_is_noted_once(bed: StoreBed) -> None:
    lease = bed.lead()
    pending, running = bed.dispatched(lease, one_off(lease.now), one_off(lease.now))
    bed.leader.apply(lease, Apply((Transition(running.run_id, 1, Event.START, RunState.RUNNING, lease.now),)))
    for run, state in ((pending, RunState.PENDING), (running, RunState.RUNNING)):
        noted = bed.runs.request_cancel(run.run_id)
        assert noted.state is state
        assert noted.cancel_requested_at is not None
        assert bed.runs.request_cancel(run.run_id) == noted


def test_the_cancel_of_a_final_run_changes_nothing(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    bed.leader.apply(lease, Apply((Transition(run.run_id, 1, Event.SUCCEED, RunState.COMPLETED, lease.now),)))
    before = bed.runs.get(run.run_id)
    assert bed.runs.request_cancel(run.run_id) == before


def test_a_cancel_beside_a_release_is_either_in_time_or_noted(bed: StoreBed) -> None:
    lease = bed.lead()
    runs = bed.make(lease, *(one_off(lease.now) for _ in range(60)))
    beside = bed.beside()
    together = threading.Barrier(2)

    def cancel_all() -> None:
        together.wait(60)
        for run in reversed(runs):
            beside.runs.request_cancel(run.run_id)

    with ThreadPoolExecutor(1) as pool:
        cancelling = pool.submit(cancel_all)
        together.wait(60)
        dispatched = {
            moved.run_id
            for run in runs
            for moved in bed.leader.dispatch_runs(lease, [release(run)], lease.now).dispatched
        }
        cancelling.result(60)
    for run in runs:
        kept = bed.runs.get(run.run_id)
        assert kept.cancel_requested_at is not None
        assert kept.state is (RunState.PENDING if run.run_id in dispatched else RunState.CANCELLED)


def test_runs_are_found_by_task_and_by_limit_in_pages_of_bounded_reading(
    bed: StoreBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_service.sql.run_lists.SCANNED", 4)
    define(bed.limits)
    api, acme, accent = LimitUse("api", None), LimitUse("tenant", 'ac"me'), LimitUse("tenant", "é")
    uses = {0: (api,), 1: (acme, api), 2: (accent,)}
    made = [replace(one_off(AT - n * SECOND), task=f"task.{n % 2}", limits=uses.get(n % 4, ())) for n in range(24)]
    for run in made:
        bed.runs.enqueue([run])

    def found(**filters: str) -> list[str]:
        seen: list[str] = []
        cursor, pages = None, 0
        while True:
            page = bed.runs.list(RunFilter(**filters), 2, cursor)  # type: ignore[arg-type]
            assert len(page.items) <= 2
            seen += [run.run_id for run in page.items]
            cursor, pages = page.next_cursor, pages + 1
            if cursor is None:
                assert pages < 20
                return seen

    assert found(task="task.1") == [run.run_id for run in made[1::2]]
    assert found(limit_name="api") == [run.run_id for n, run in enumerate(made) if n % 4 in (0, 1)]
    assert found(limit_name="tenant", limit_key='ac"me') == [run.run_id for run in made[1::4]]
    assert found(limit_key="é", task="task.0") == [run.run_id for run in made[2::4]]
    assert found(limit_name="ten") == []
    monkeypatch.setattr("scheduler_service.sql.run_lists.SCANNED", 3)
    assert found(limit_key="é") == [run.run_id for run in made[2::4]], "no run at the end of a read is shown twice"
    monkeypatch.setattr("scheduler_service.sql.run_lists.SCANNED", 5)
    assert found(limit_name="api") == [run.run_id for n, run in enumerate(made) if n % 4 in (0, 1)]
    assert bed.history.count_runs(RunFilter(limit_key="é")).number == 6
