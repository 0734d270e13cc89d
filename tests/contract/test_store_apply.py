"""LeaderStore.apply: guarded transitions in order, attempts kept, late reports set beside, the position with them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import SECOND, Instant
from itinerary.protocol.progress import Progress
from scheduler_service.core.attempts import Attempt, LateReports, TaskError
from scheduler_service.core.leader.commands import Apply, Dispatch, LateReport, PublishedMark, Transition
from scheduler_service.core.model import Lease
from scheduler_service.core.run_state import FINAL, TRANSITIONS, Event, RunState
from tests.support.store_bed import StoreBed, one_off, release

ERROR = {"type": "ValueError", "message": "no", "traceback": "Traceback ..."}
UNSTORABLE = {"worker-\udc80": "worker-\\ufffd", "worker-\x00": "worker-\\ufffd"}


def start(run_id: str, at: Instant, attempt: int = 1) -> Transition:
    return Transition(run_id, attempt, Event.START, RunState.RUNNING, at, worker="w@h")


def succeed(run_id: str, at: Instant, attempt: int = 1) -> Transition:
    return Transition(run_id, attempt, Event.SUCCEED, RunState.COMPLETED, at, worker="w@h", result={"n": [1, None]})


def fail(run_id: str, at: Instant, to: RunState = RunState.RETRYING, attempt: int = 1) -> Transition:
    return Transition(
        run_id, attempt, Event.FAIL, to, at, reason="it failed", due_at=at + SECOND, worker="w@h", error=ERROR
    )


WAYS: dict[RunState, list[Callable[[str, Instant], Transition]]] = {
    RunState.SCHEDULED: [],
    RunState.PENDING: [],
    RunState.RUNNING: [start],
    RunState.RETRYING: [fail],
    RunState.COMPLETED: [succeed],
    RunState.FAILED: [lambda run_id, at: fail(run_id, at, RunState.FAILED)],
    RunState.CANCELLED: [lambda run_id, at: Transition(run_id, 1, Event.CANCEL, RunState.CANCELLED, at)],
    RunState.SKIPPED: [lambda run_id, at: Transition(run_id, 1, Event.SKIP, RunState.SKIPPED, at)],
    RunState.MISSED: [lambda run_id, at: Transition(run_id, 1, Event.MISS, RunState.MISSED, at)],
}
UNRELEASED = (RunState.SCHEDULED, RunState.CANCELLED, RunState.SKIPPED, RunState.MISSED)


def put_into(bed: StoreBed, lease: Lease, *states: RunState) -> list[str]:
    """One run in each of these states; its attempt is 1, in `retrying` 2."""
    runs = [one_off(lease.now) for _ in states]
    asked = list(zip(runs, states, strict=True))
    bed.make(lease, *(run for run, state in asked if state in UNRELEASED))
    bed.dispatched(lease, *(run for run, state in asked if state not in UNRELEASED))
    steps = [step(run.run_id, lease.now) for run, state in asked for step in WAYS[state]]
    assert bed.leader.apply(lease, Apply(tuple(steps))) == ()
    return [run.run_id for run in runs]


def test_an_event_moves_a_run_exactly_where_the_transition_table_says(bed: StoreBed) -> None:
    lease = bed.lead()
    expected: dict[str, RunState] = {}
    transitions, illegal = [], []
    for event, move in TRANSITIONS.items():
        for state, run_id in zip(RunState, put_into(bed, lease, *RunState), strict=True):
            to = move.spent or move.target
            attempt = 2 if state is RunState.RETRYING else 1
            transitions.append(Transition(run_id, attempt, event, to, lease.now + SECOND))
            expected[run_id] = to if state in move.sources else state
            illegal += [] if state in move.sources else [run_id]
    refused = bed.leader.apply(lease, Apply(tuple(transitions)))
    assert {run_id: bed.runs.get(run_id).state for run_id in expected} == expected
    assert list(refused) == illegal


@pytest.mark.parametrize("attempt", [0, 2])
def test_an_event_of_another_attempt_is_refused(bed: StoreBed, attempt: int) -> None:
    lease = bed.lead()
    (run_id,) = put_into(bed, lease, RunState.RUNNING)
    assert bed.leader.apply(lease, Apply((succeed(run_id, lease.now, attempt),))) == (run_id,)
    assert bed.runs.get(run_id).state is RunState.RUNNING


def test_an_event_of_an_unknown_run_is_refused(bed: StoreBed) -> None:
    lease = bed.lead()
    assert bed.leader.apply(lease, Apply((succeed("nobody", lease.now),))) == ("nobody",)


def test_a_success_is_kept_with_its_result_and_the_earlier_start(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    started = start(run.run_id, lease.now + 9)._replace(started_at=lease.now + 1)
    done = succeed(run.run_id, lease.now + 10)._replace(started_at=lease.now + 2, reason="ignored")
    assert bed.leader.apply(lease, Apply((started, done))) == ()
    kept = bed.runs.get(run.run_id)
    assert (kept.state, kept.started_at, kept.finished_at) == (RunState.COMPLETED, lease.now + 1, lease.now + 10)
    assert (kept.result, kept.worker, kept.reason, kept.attempts) == ({"n": [1, None]}, "w@h", "ignored", ())


def test_a_success_before_its_start_keeps_the_start_it_tells_and_a_late_start_is_refused(bed: StoreBed) -> None:
    lease = bed.lead()
    (run_id,) = put_into(bed, lease, RunState.PENDING)
    done = succeed(run_id, lease.now + 10)._replace(started_at=lease.now + 2)
    assert bed.leader.apply(lease, Apply((done, start(run_id, lease.now + 3)))) == (run_id,)
    kept = bed.runs.get(run_id)
    assert (kept.state, kept.started_at) == (RunState.COMPLETED, lease.now + 2)


def test_a_start_without_its_own_time_started_when_it_was_told(bed: StoreBed) -> None:
    lease = bed.lead()
    (run_id,) = put_into(bed, lease, RunState.PENDING)
    bed.leader.apply(lease, Apply((start(run_id, lease.now + 3),)))
    assert bed.runs.get(run_id).started_at == lease.now + 3


def recall(run_id: str, at: Instant, to: RunState = RunState.SCHEDULED, attempt: int = 1) -> Transition:
    return Transition(run_id, attempt, Event.RECALL, to, at, reason="recalled: why")


def test_a_recalled_run_waits_again_and_is_dispatched_in_the_same_attempt(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    mark = PublishedMark(run.run_id, 1, lease.now + 2)
    assert bed.leader.apply(lease, Apply((recall(run.run_id, lease.now + 3),), published=(mark,))) == ()
    kept, (row,) = bed.runs.get(run.run_id), bed.leader.read_runs([run.run_id])
    assert (kept.state, kept.attempt, kept.reason, kept.attempts) == (RunState.SCHEDULED, 1, "recalled: why", ())
    assert (kept.pending_at, kept.published_at, kept.due_at, row.seq) == (None, None, lease.now, 1)
    bed.leader.apply(lease, Apply((), published=(mark,)))
    (sent,) = bed.leader.dispatch_runs(lease, [release(run, 1, 9)], lease.now + 4).dispatched
    assert (sent.attempt, sent.seq, bed.runs.get(run.run_id).published_at) == (1, 9, None)


def test_a_recalled_retry_waits_as_one_and_keeps_its_record(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    bed.leader.apply(lease, Apply((fail(run.run_id, lease.now),)))
    assert bed.leader.dispatch_runs(lease, [release(run, 2, 9)], lease.now + SECOND).dispatched
    back = recall(run.run_id, lease.now + SECOND, RunState.RETRYING, 2)
    assert bed.leader.apply(lease, Apply((back,))) == ()
    kept = bed.runs.get(run.run_id)
    assert (kept.state, kept.attempt, len(kept.attempts)) == (RunState.RETRYING, 2, 1)
    assert bed.leader.apply(lease, Apply((back,))) == (run.run_id,)


def test_a_run_whose_cancel_was_asked_for_is_not_recalled(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    bed.runs.request_cancel(run.run_id)
    assert bed.leader.apply(lease, Apply((recall(run.run_id, lease.now),))) == (run.run_id,)
    assert bed.runs.get(run.run_id).state is RunState.PENDING


def test_a_result_comes_back_as_it_was(bed: StoreBed) -> None:
    lease = bed.lead()
    results = [0, False, "", [], {}, "text", 1e16, -0.0, 2**70, {"ü": "\u2028"}]
    runs = bed.dispatched(lease, *(one_off(lease.now) for _ in results))
    done = [succeed(run.run_id, lease.now)._replace(result=result) for run, result in zip(runs, results, strict=True)]
    bed.leader.apply(lease, Apply(tuple(done)))
    assert [repr(bed.runs.get(run.run_id).result) for run in runs] == [repr(result) for result in results]


def test_a_failed_attempt_with_attempts_left_is_kept_and_the_next_begins_clean(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now, args=["kept"]))
    mark = PublishedMark(run.run_id, 1, lease.now + 2)
    begun = start(run.run_id, lease.now + 3)._replace(worker="first@h")
    failed = fail(run.run_id, lease.now + 4)._replace(worker=None)
    assert bed.leader.apply(lease, Apply((begun, failed), published=(mark,))) == ()
    kept = bed.runs.get(run.run_id)
    assert (kept.state, kept.attempt, kept.due_at) == (RunState.RETRYING, 2, lease.now + 4 + SECOND)
    assert (kept.reason, kept.args) == ("it failed", ["kept"])
    assert (kept.pending_at, kept.published_at, kept.started_at, kept.finished_at) == (None, None, None, None)
    assert (kept.worker, kept.error) == (None, None)
    assert kept.attempts == (
        Attempt(
            1, "failed", "it failed", lease.now + 1, lease.now + 2, lease.now + 3, lease.now + 4, "first@h",
            TaskError("ValueError", "no", "Traceback ..."),
        ),
    )  # fmt: skip


def test_the_last_progress_of_an_attempt_is_kept_with_its_end(bed: StoreBed) -> None:
    lease = bed.lead()
    retried, ended, silent = (run.run_id for run in bed.dispatched(lease, *(one_off(lease.now) for _ in range(3))))
    half, whole = Progress(412, 1000, "rows"), Progress(0.5)
    steps = (
        fail(retried, lease.now)._replace(progress=half), start(retried, lease.now, 2),
        succeed(ended, lease.now)._replace(progress=whole), succeed(silent, lease.now),
    )  # fmt: skip
    bed.leader.apply(lease, Apply(steps))
    first, second, third = (bed.runs.get(run_id) for run_id in (retried, ended, silent))
    assert (first.progress, first.attempts[0].progress) == (None, half)
    assert (second.progress, third.progress) == (whole, None)
    late = LateReport(ended, 1, "failed", lease.now + 99, "w2@h", None)
    assert bed.leader.apply(lease, Apply((), late=(late,))) == ()
    assert bed.runs.get(ended).progress == whole


def test_an_ended_attempt_says_how_it_ended(bed: StoreBed) -> None:
    lease = bed.lead()
    outcomes = {Event.FAIL: "failed", Event.RETRY: "retried", Event.LOSE: "lost", Event.TIME_OUT: "timed_out"}
    for event, outcome in outcomes.items():
        (run_id,) = put_into(bed, lease, RunState.RUNNING)
        bed.leader.apply(lease, Apply((fail(run_id, lease.now)._replace(event=event),)))
        assert [attempt.outcome for attempt in bed.runs.get(run_id).attempts] == [outcome]


def test_only_a_retry_that_the_task_asked_for_counts_as_one_of_its_retries(bed: StoreBed) -> None:
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    for attempt, event in enumerate([Event.RETRY, Event.FAIL, Event.RETRY], start=1):
        again = fail(run.run_id, lease.now, attempt=attempt)._replace(event=event, due_at=lease.now)
        assert bed.leader.apply(lease, Apply((again,))) == ()
        (moved,) = bed.leader.dispatch_runs(lease, [release(run, attempt + 1)], lease.now).dispatched
    assert (moved.attempt, moved.retries) == (4, 2)
    assert [attempt.attempt for attempt in bed.runs.get(run.run_id).attempts] == [1, 2, 3]


def test_an_attempt_after_a_requested_cancel_is_refused_and_the_run_ends_in_the_same_transaction(bed: StoreBed) -> None:
    lease = bed.lead()
    failing, succeeding = put_into(bed, lease, RunState.RUNNING, RunState.RUNNING)
    for run_id in (failing, succeeding):
        bed.runs.request_cancel(run_id)
    failed = fail(failing, lease.now)._replace(error={"type": "E", "message": "told", "traceback": None})
    assert bed.leader.apply(lease, Apply((failed, succeed(succeeding, lease.now)))) == (failing,)
    ended = bed.runs.get(failing)
    assert (ended.state, ended.attempt, ended.attempts) == (RunState.CANCELLED, 1, ())
    assert ended.finished_at == max(lease.now, ended.cancel_requested_at or 0)
    assert ended.error is not None
    assert ended.error.message == "told"
    assert bed.runs.get(succeeding).state is RunState.COMPLETED


def test_a_cancelled_run_has_a_reason_and_does_not_end_before_it_was_asked_to(bed: StoreBed) -> None:
    lease = bed.lead()
    given_up, stopped = put_into(bed, lease, RunState.RUNNING, RunState.RUNNING)
    for run_id in (given_up, stopped):
        bed.runs.request_cancel(run_id)
    before = lease.now - SECOND  # a worker dated its report before the request was made
    stop = Transition(stopped, 1, Event.CANCEL, RunState.CANCELLED, before, reason="cancelled while running")
    bed.leader.apply(lease, Apply((fail(given_up, before), stop)))
    for run_id in (given_up, stopped):
        run = bed.runs.get(run_id)
        assert (run.state, run.reason) == (RunState.CANCELLED, "cancelled while running")
        assert run.finished_at is not None
        assert run.finished_at == run.cancel_requested_at


def test_a_late_end_of_an_older_attempt_cancels_nothing(bed: StoreBed) -> None:
    lease = bed.lead()
    (run_id,) = put_into(bed, lease, RunState.RUNNING)
    again = fail(run_id, lease.now)._replace(due_at=lease.now)
    assert bed.leader.apply(lease, Apply((again,))) == ()
    bed.leader.dispatch_runs(lease, [Dispatch(run_id, 2, 9)], lease.now)
    bed.runs.request_cancel(run_id)
    assert bed.leader.apply(lease, Apply((again,))) == (run_id,)
    assert bed.runs.get(run_id).state is RunState.PENDING


def test_transitions_of_one_run_are_carried_out_in_their_order(bed: StoreBed) -> None:
    lease = bed.lead()
    runs = put_into(bed, lease, *[RunState.PENDING] * 10)
    story: list[Callable[[str], Transition]] = [
        lambda run_id: start(run_id, lease.now),
        lambda run_id: fail(run_id, lease.now),
        lambda run_id: Transition(run_id, 2, Event.CANCEL, RunState.CANCELLED, lease.now, reason="enough"),
    ]
    batch = Apply(tuple(step(run_id) for step in story for run_id in runs))
    assert bed.leader.apply(lease, batch) == ()
    assert {(run.state, run.attempt, len(run.attempts)) for run in map(bed.runs.get, runs)} == {
        (RunState.CANCELLED, 2, 1)
    }


def test_the_same_batch_again_changes_nothing(bed: StoreBed) -> None:
    lease = bed.lead()
    done, retried = put_into(bed, lease, RunState.RUNNING, RunState.RUNNING)
    batch = Apply((succeed(done, lease.now), fail(retried, lease.now)), position="5-0")
    assert bed.leader.apply(lease, batch) == ()
    before = bed.runs.get(done), bed.runs.get(retried)
    assert bed.leader.apply(lease, batch) == (done, retried)
    assert (bed.runs.get(done), bed.runs.get(retried)) == before


def test_a_published_mark_is_kept_alone_and_with_a_transition_even_a_refused_one(bed: StoreBed) -> None:
    lease = bed.lead()
    alone, along, refused = put_into(bed, lease, *[RunState.PENDING] * 3)
    bed.leader.apply(lease, Apply((start(refused, lease.now),)))
    marks = tuple(PublishedMark(run_id, 1, lease.now + 5) for run_id in (alone, along, refused))
    bed.leader.apply(lease, Apply((succeed(along, lease.now), start(refused, lease.now)), published=marks))
    assert [bed.runs.get(run_id).published_at for run_id in (alone, along, refused)] == [lease.now + 5] * 3


def test_a_published_mark_of_an_attempt_that_is_over_leaves_the_run_alone(bed: StoreBed) -> None:
    lease = bed.lead()
    (run_id,) = put_into(bed, lease, RunState.RETRYING)
    bed.leader.apply(lease, Apply((), published=(PublishedMark(run_id, 1, lease.now), PublishedMark(run_id, 2, 5))))
    assert bed.runs.get(run_id).published_at is None


def test_the_leaders_own_cancel_request_is_noted_once_and_only_on_runs_that_are_not_final(bed: StoreBed) -> None:
    lease = bed.lead()
    running, done = put_into(bed, lease, RunState.RUNNING, RunState.COMPLETED)
    bed.leader.apply(lease, Apply((), cancels=(running, done, "nobody")))
    noted = bed.runs.get(running).cancel_requested_at
    bed.leader.apply(lease, Apply((), cancels=(running,)))
    assert noted is not None
    assert bed.runs.get(running).cancel_requested_at == noted
    assert bed.runs.get(done).cancel_requested_at is None
    assert [run.run_id for run in bed.leader.cancel_requests(10, None).runs] == [running]


def test_a_late_report_changes_neither_the_run_nor_its_attempts_outcome(bed: StoreBed) -> None:
    lease = bed.lead()
    retrying, done = put_into(bed, lease, RunState.RETRYING, RunState.COMPLETED)
    before = bed.runs.get(retrying), bed.runs.get(done)
    late = tuple(LateReport(run_id, 1, "succeeded", lease.now + 99, "w2@h", None) for run_id in (retrying, done))
    unheard = (
        LateReport(retrying, 2, "failed", lease.now, "w2@h", ERROR),
        LateReport("nobody", 1, "failed", lease.now, "w2@h", ERROR),
    )
    for _ in range(2):
        assert bed.leader.apply(lease, Apply((), late=(*late, *unheard))) == ()
    told = LateReports(2, "succeeded", lease.now + 99, "w2@h", None)
    first, second = bed.runs.get(retrying), bed.runs.get(done)
    assert (first.attempts[0].late, first.late, second.late) == (told, None, told)
    unmarked = replace(first, attempts=(replace(first.attempts[0], late=None),)), replace(second, late=None)
    assert unmarked == before


def test_the_report_that_ended_an_attempt_told_again_is_not_late(bed: StoreBed) -> None:
    lease = bed.lead()
    (done,) = put_into(bed, lease, RunState.RUNNING)
    ended = succeed(done, lease.now + 10)
    assert bed.leader.apply(lease, Apply((ended,))) == ()
    before = bed.runs.get(done)
    again = LateReport(done, 1, "succeeded", ended.at, "w@h", None)
    assert bed.leader.apply(lease, Apply((), late=(again,))) == ()
    assert bed.runs.get(done) == before


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 1, 0)], ids=["late, again", "again, late", "late, again, late"])
def test_a_report_told_again_beside_a_late_one_neither_counts_nor_hides_it(
    bed: StoreBed, order: tuple[int, ...]
) -> None:
    lease = bed.lead()
    final, older = put_into(bed, lease, RunState.RUNNING, RunState.RUNNING)
    ends = (succeed(final, lease.now + 10), fail(older, lease.now + 10, RunState.RETRYING))
    assert bed.leader.apply(lease, Apply(ends)) == ()
    for run_id in (final, older):
        late = LateReport(run_id, 1, "failed", lease.now + 99, "w2@h", None)
        again = LateReport(run_id, 1, "succeeded", lease.now + 10, "w@h", None)
        assert bed.leader.apply(lease, Apply((), late=tuple((late, again)[n] for n in order))) == ()
    told = LateReports(order.count(0), "failed", lease.now + 99, "w2@h", None)
    assert (bed.runs.get(final).late, bed.runs.get(older).attempts[0].late) == (told, told)


def test_the_position_is_committed_with_what_was_read_up_to_it(bed: StoreBed) -> None:
    lease = bed.lead()
    assert bed.leader.cursor(lease).inbox_position == "0-0"
    bed.leader.apply(lease, Apply((), position="7-1"))
    bed.leader.apply(lease, Apply(()))
    assert bed.leader.cursor(lease).inbox_position == "7-1"


def test_a_lease_that_is_over_applies_nothing(bed: StoreBed) -> None:
    lease = bed.lead()
    (run_id,) = put_into(bed, lease, RunState.RUNNING)
    successor = bed.take_over(lease)
    with pytest.raises(LeaseLost):
        bed.leader.apply(lease, Apply((succeed(run_id, lease.now),), cancels=(run_id,), position="7-1"))
    kept = bed.runs.get(run_id)
    assert (kept.state, kept.cancel_requested_at) == (RunState.RUNNING, None)
    assert bed.leader.cursor(successor).inbox_position == "0-0"


@pytest.mark.parametrize("bad", UNSTORABLE, ids=["surrogate", "nul"])
def test_a_report_that_cannot_be_stored_is_set_aside_and_keeps_no_other_out(bed: StoreBed, bad: str) -> None:
    lease = bed.lead()
    runs = put_into(bed, lease, *[RunState.RUNNING] * 9)
    marks = tuple(PublishedMark(run_id, 1, lease.now) for run_id in runs)
    done = [succeed(run_id, lease.now) for run_id in runs]
    done[5] = done[5]._replace(worker=bad)
    (failed,) = put_into(bed, lease, RunState.FAILED)
    late = LateReport(failed, 1, "failed", lease.now, bad, None)
    assert bed.leader.apply(lease, Apply(tuple(done), published=marks, late=(late,), position="8-0")) == ()
    kept = [bed.runs.get(run_id) for run_id in runs]
    assert {run.state for run in kept} == {RunState.COMPLETED}
    assert [run.result for run in kept] == [{"n": [1, None]}] * 5 + [None] + [{"n": [1, None]}] * 3
    assert kept[5].error is not None
    assert (kept[5].error.type, kept[5].worker) == (
        "RowRefused",
        UNSTORABLE[bad],
    )
    assert bed.leader.cursor(lease).inbox_position == "8-0"


def test_a_result_that_is_no_json_is_replaced_by_a_note(bed: StoreBed) -> None:
    lease = bed.lead()
    results = [float("nan"), float("inf"), object(), {1: {2, 3}}]
    runs = put_into(bed, lease, *[RunState.RUNNING] * len(results))
    done = [succeed(run_id, lease.now)._replace(result=result) for run_id, result in zip(runs, results, strict=True)]
    assert bed.leader.apply(lease, Apply(tuple(done))) == ()
    for kept in map(bed.runs.get, runs):
        assert (kept.state, kept.result, kept.worker) == (RunState.COMPLETED, None, "w@h")
        assert kept.error is not None
        assert kept.error.type == "RowRefused"


@pytest.mark.postgres
def test_what_only_the_database_refuses_is_given_up_alone_and_named(postgres_stores: StoreBed) -> None:
    lease = postgres_stores.lead()
    runs = put_into(postgres_stores, lease, *[RunState.RUNNING] * 9)
    ends = [fail(run_id, lease.now) for run_id in runs]
    ends[2] = ends[2]._replace(attempt=2**40)
    late = [LateReport(run_id, 2**40 * (n == 3), "failed", 0, "w@h", None) for n, run_id in enumerate(runs)]
    assert postgres_stores.leader.apply(lease, Apply(tuple(ends), late=tuple(late), position="8-0")) == (runs[2],)
    states = [postgres_stores.runs.get(run_id).state for run_id in runs]
    assert states == [RunState.RETRYING] * 2 + [RunState.RUNNING] + [RunState.RETRYING] * 6
    assert postgres_stores.leader.cursor(lease).inbox_position == "8-0"


def test_a_retry_whose_arguments_cannot_be_stored_ends_the_run_instead_of_repeating_it_with_others(
    bed: StoreBed,
) -> None:
    lease = bed.lead()
    (run_id,) = put_into(bed, lease, RunState.RUNNING)
    asked = Transition(
        run_id, 1, Event.RETRY, RunState.RETRYING, lease.now, due_at=lease.now, worker="\udc80", args=["new"]
    )
    assert bed.leader.apply(lease, Apply((asked,))) == ()
    kept = bed.runs.get(run_id)
    assert (kept.state, kept.reason) == (RunState.FAILED, "the retry's arguments cannot be stored")


def test_every_final_state_has_a_time_of_its_end(bed: StoreBed) -> None:
    lease = bed.lead()
    assert all(bed.runs.get(run_id).finished_at is not None for run_id in put_into(bed, lease, *FINAL))
