"""Where a run's time went, as its page draws it: every part in its order, none lost, none invisible."""

from typing import Any, Final

import pytest

from itinerary.protocol.instants import HOUR, MILLISECOND, SECOND, Instant
from itinerary.protocol.run_fields import NO_RETRIES
from scheduler_service.api.pages.run_bar import WIDTH, Bar, bar, durations, precise
from scheduler_service.core.attempts import Attempt
from scheduler_service.core.contract.run_json import attempts_of
from scheduler_service.core.explain.causes import cause
from scheduler_service.core.model import Run, RunKind
from scheduler_service.core.run_state import RunState

T: Final[Instant] = 1_795_000_000_000_000
NONE: Final = dict.fromkeys(("pending_at", "published_at", "started_at", "finished_at"))


def a_run(state: RunState, **fields: Any) -> Run:
    none: dict[str, Any] = dict.fromkeys((
        "job_id", "job_version", "retry_of", "timeout", "reason", "cancel_requested_at", "worker", "term", "result",
        "error",
    ))  # fmt: skip
    whole: dict[str, Any] = {
        "run_id": "r", "kind": RunKind.ADHOC, "task": "t", "args": [], "kwargs": {}, "queue": "default", "priority": 5,
        "scheduled_at": T, "due_at": T, "attempt": 1, "retry": NO_RETRIES, **none, **NONE,
    }  # fmt: skip
    return Run(state=state, **{**whole, **fields})


def at(seconds: float) -> Instant:
    return T + int(seconds * SECOND)


def ended(number: int, *seconds: float | None) -> Attempt:
    times = [None if one is None else at(one) for one in seconds]
    return Attempt(number, "failed", None, *times, "w", None)


def drawn(run: Run, now: Instant = T + HOUR) -> list[tuple[str, str]]:
    found = bar(run, attempts_of(run), now)
    if found is None:
        return []
    assert sum(segment.width for segment in found.segments) == WIDTH
    assert min(segment.width for segment in found.segments) > 0
    assert [segment.x for segment in found.segments] == [
        sum(one.width for one in found.segments[:place]) for place in range(len(found.segments))
    ]
    return [(segment.kind, segment.text.partition(": ")[2]) for segment in found.segments]


def test_a_run_that_completed() -> None:
    times = {"pending_at": at(1), "published_at": at(1.004), "started_at": at(3), "finished_at": at(10)}
    assert drawn(a_run(RunState.COMPLETED, **times)) == [
        ("waiting", "waiting for dispatch 1.000 s"),
        ("dispatched", "dispatched, not yet published 4 ms"),
        ("published", "published, waiting for a worker 1.996 s"),
        ("running", "running 7.000 s"),
    ]


def test_retries_with_their_pauses_and_the_present_attempt_that_goes_on() -> None:
    earlier = (ended(1, 0, 0.5, 1, 2), ended(2, 5, None, 6, 9))
    times = {"pending_at": at(20), "published_at": at(20.5), "started_at": at(21), "attempt": 3, "due_at": at(19)}
    run = a_run(RunState.RUNNING, attempts=earlier, **times)
    assert [kind for kind, _ in drawn(run, at(30))] == [
        "dispatched", "published", "running", "pause", "published", "running", "pause", "dispatched", "published",
        "running",
    ]  # fmt: skip
    assert drawn(run, at(30))[-1] == ("running", "running 9.000 s so far")


@pytest.mark.parametrize(
    ("run", "parts"),
    [
        (a_run(RunState.SCHEDULED, scheduled_at=at(99), due_at=at(99)), []),
        (a_run(RunState.SCHEDULED), [("waiting", "waiting for dispatch 10.000 s so far")]),
        (a_run(RunState.SCHEDULED, due_at=at(60)), [("early", "before its due time 10.000 s so far")]),
        (a_run(RunState.SCHEDULED, due_at=at(4)),
         [("early", "before its due time 4.000 s"), ("waiting", "waiting for dispatch 6.000 s so far")]),
        (a_run(RunState.PENDING, pending_at=at(4)),
         [("waiting", "waiting for dispatch 4.000 s"), ("dispatched", "dispatched, not yet published 6.000 s so far")]),
        (a_run(RunState.PENDING, pending_at=at(0), published_at=at(4)),
         [("dispatched", "dispatched, not yet published 4.000 s"),
          ("published", "published, waiting for a worker 6.000 s so far")]),
        (a_run(RunState.RETRYING, attempts=(ended(1, 0, 0, 0, 4),), attempt=2, due_at=at(60)),
         [("running", "running 4.000 s"), ("pause", "pause before a retry 6.000 s so far")]),
        (a_run(RunState.CANCELLED, finished_at=at(3)), [("waiting", "waiting for dispatch 3.000 s")]),
        (a_run(RunState.CANCELLED, scheduled_at=at(99), due_at=at(99), finished_at=at(3)), []),
        (a_run(RunState.FAILED, pending_at=at(0), published_at=at(0), finished_at=at(7)),
         [("published", "published, waiting for a worker 7.000 s")]),
        # Its worker's clock is late, and the mark of the publish came after the start.
        (a_run(RunState.COMPLETED, pending_at=at(2), published_at=at(9), started_at=at(1), finished_at=at(4)),
         [("waiting", "waiting for dispatch 2.000 s"), ("running", "running 2.000 s")]),
    ],
)  # fmt: skip
def test_each_state_has_its_parts(run: Run, parts: list[tuple[str, str]]) -> None:
    assert drawn(run, at(10)) == parts


def test_a_part_of_a_millisecond_beside_hours_is_seen() -> None:
    times = {"pending_at": T + MILLISECOND, "started_at": T + 2 * MILLISECOND, "finished_at": T + 10 * HOUR}
    run = a_run(RunState.COMPLETED, **times)
    found = bar(run, attempts_of(run), T)
    assert isinstance(found, Bar)
    assert [segment.width for segment in found.segments] == [6, 6, 988]
    assert [total.text for total in found.totals] == [
        "waiting for dispatch 1 ms", "published, waiting for a worker 1 ms", "running 9 h 59 min",
    ]  # fmt: skip


def test_of_many_attempts_the_last_are_drawn_and_the_rest_counted() -> None:
    attempts = tuple(ended(n, 10 * n, 10 * n + 1, 10 * n + 2, 10 * n + 3) for n in range(1, 200))
    run = a_run(RunState.RETRYING, attempts=attempts, attempt=200)
    found = bar(run, attempts_of(run), at(2_000))
    assert found is not None
    assert found.left_out == 179
    assert found.segments[0].text.startswith("attempt 180: ")
    assert sum(segment.width for segment in found.segments) == WIDTH


def test_an_attempts_waits_are_told_to_the_millisecond() -> None:
    found = durations(ended(1, 1, 1.5, 2.041, 4), T, at(9))
    assert (found.waited, found.queued, found.ran) == ("1.000 s", "1.041 s", "1.959 s")
    goes_on = durations(ended(1, 1, None, 3, None), None, at(9))
    assert (goes_on.waited, goes_on.queued, goes_on.ran) == (None, "2.000 s", "6.000 s")
    unstarted = durations(ended(1, 1, None, None, 5), T, at(9))
    assert (unstarted.queued, unstarted.ran) == (None, None)


def test_durations_keep_their_milliseconds_below_a_minute() -> None:
    assert [precise(one) for one in (0, 999, 12_345, SECOND, 59_999_000, 61 * SECOND, 2 * HOUR)] == [
        "0 ms", "0 ms", "12 ms", "1.000 s", "59.999 s", "1 min 1 s", "2 h",
    ]  # fmt: skip


def test_short_reasons_are_told_in_plain_words_and_sentences_as_they_are() -> None:
    assert "was killed" in str(cause("worker_lost"))
    assert cause("no worker on queue default knows the task x") == "no worker on queue default knows the task x"
    assert cause(None) is None
