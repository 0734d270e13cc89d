"""Workers and their children are killed at every named point of an attempt, all at the same time: one story, read many
times. What became of each run is compared with what its tasks recorded.
"""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from itinerary.protocol.instants import SECOND
from scheduler_service.core.model import Run
from scheduler_service.core.run_state import RunState
from tests.support.fault_bed import FaultBed
from tests.support.processes import wait_until
from tests.support.records import Truth
from tests.support.redis_server import RedisServer

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.redis]

POINTS = ("received", "claimed", "running", "ended", "handed over", "reported")


@dataclass(frozen=True)
class Story:
    """What ended how, by name, and what the tasks themselves wrote."""

    runs: dict[str, Run]
    truth: Truth
    ticks: set[tuple[str, int]]
    survived: bool

    def counts(self, name: str, attempt: int) -> tuple[int, int]:
        """Starts and ends of one attempt."""
        task_id = f"{self.runs[name].run_id}~{attempt}"
        return self.truth.starts[task_id], self.truth.ends[task_id]


@pytest.fixture(scope="module")
def story(
    tmp_path_factory: pytest.TempPathFactory, module_postgres_url: str, module_redis: RedisServer
) -> Iterator[Story]:
    with FaultBed(tmp_path_factory.mktemp("workers"), module_postgres_url, module_redis.url) as bed:
        bed.begin().worker()
        yield told(bed)


def told(bed: FaultBed) -> Story:
    """Everything that this module tests happens here, side by side."""
    queues = [*(f"main-{point}" for point in POINTS), "malformed", "frozen", "unlimited"]
    doomed = {queue: bed.worker(queues=queue, concurrency=1, wait=False) for queue in queues}
    for child in doomed.values():
        child.wait_for_line("ready.")
    ids = {}
    (first,) = bed.enqueue()  # until a worker's child has spoken once, none is known to be able to
    bed.wait_state(first, "completed")
    for point in POINTS:
        (ids[f"main {point}"],) = bed.enqueue(1, "faulty.fall", queue=f"main-{point}", at=point, whom="main")
        (ids[f"child {point}"],) = bed.enqueue(1, "faulty.fall", at=point, whom="child")
    (ids["poison"],) = bed.enqueue(1, "faulty.poison", attempts=2)
    (ids["unknown"],) = bed.enqueue(1, "nobody.knows")
    gate = bed.folder / "gate"
    (ids["frozen"],) = bed.enqueue(1, queue="frozen", gate=str(gate))
    bed.started(ids["frozen"])
    limit_gate = bed.folder / "limit_gate"
    (ids["unlimited"],) = bed.enqueue(1, queue="unlimited", timeout=SECOND, gate=str(limit_gate))
    bed.started(ids["unlimited"])
    unlimited = doomed.pop("unlimited")
    os.kill(unlimited.pid, signal.SIGSTOP)  # the main process alone: its child runs on, past every limit
    frozen = doomed.pop("frozen")
    os.killpg(frozen.pid, signal.SIGSTOP)
    with bed.redis() as client:
        client.lpush("malformed", "not a message")
    (ids["after malformed"],) = bed.enqueue(1, queue="malformed")
    bed.wait_state(ids["after malformed"], "completed")
    malformed = doomed.pop("malformed")
    for queue, child in doomed.items():
        assert child.wait() == -signal.SIGKILL, (queue, child.output)
    wait_until(lambda: bed.run(ids["unlimited"]).attempt == 2, what=lambda: f"another attempt{bed.outputs}")
    limit_gate.touch()
    bed.ended(ids["unlimited"])
    bed.worker(queues=",".join(queues), concurrency=2)  # what a supervisor does
    bed.wait_state(ids["frozen"], "running", attempt=2)
    gate.touch()
    bed.wait_state(ids["frozen"], "completed")
    os.killpg(frozen.pid, signal.SIGCONT)
    os.kill(unlimited.pid, signal.SIGCONT)
    bed.wait_state(ids["poison"], "failed")
    bed.reconcile()
    runs = {name: bed.run(run_id) for name, run_id in ids.items()}
    for name in ("frozen", "unlimited"):
        wait_until(lambda: bed.late_reports(ids[name]), what=lambda: f"its late report{bed.outputs}")  # noqa: B023
    assert not bed.violations()
    return Story(runs, bed.truth(), set(bed.endings("tick")), malformed.running)


def test_the_jobs_of_healthy_workers_go_on_meanwhile(story: Story) -> None:
    assert story.ticks == {("completed", 1)}


@pytest.mark.parametrize(
    ("whom", "point", "counts"),
    [
        *((whom, "claimed", (0, 0)) for whom in ("child", "main")),
        *((whom, "running", (1, 0)) for whom in ("child", "main")),
        *((whom, "ended", (1, 1)) for whom in ("child", "main")),
        ("main", "handed over", (1, 1)),
    ],
)
def test_an_attempt_whose_worker_is_killed_after_the_claim_is_lost_once_and_tried_again(
    story: Story, whom: str, point: str, counts: tuple[int, int]
) -> None:
    run = story.runs[f"{whom} {point}"]
    assert (run.state, run.attempt) == (RunState.COMPLETED, 2)
    assert story.counts(f"{whom} {point}", 1) == counts
    assert story.counts(f"{whom} {point}", 2) == (1, 1)
    (lost,) = run.attempts
    assert lost.outcome == "lost" if whom == "main" else lost.reason == "worker_lost"


@pytest.mark.parametrize("name", ["child handed over", "child reported", "main reported"])
def test_a_worker_killed_after_the_report_costs_no_attempt(story: Story, name: str) -> None:
    run = story.runs[name]
    assert (run.state, run.attempt) == (RunState.COMPLETED, 1)
    assert story.counts(name, 1) == (1, 1)


@pytest.mark.parametrize("whom", ["child", "main"])
def test_a_message_that_died_with_its_process_before_the_claim_is_sent_again_and_costs_no_attempt(
    story: Story, whom: str
) -> None:
    run = story.runs[f"{whom} received"]
    assert (run.state, run.attempt) == (RunState.COMPLETED, 1)
    assert story.counts(f"{whom} received", 1) == (1, 1)


def test_a_task_that_kills_its_process_every_time_spends_its_attempts_and_no_more(story: Story) -> None:
    run = story.runs["poison"]
    assert (run.state, run.attempt, run.reason) == (RunState.FAILED, 2, "worker_lost")
    assert [story.counts("poison", attempt) for attempt in (1, 2, 3)] == [(1, 0), (1, 0), (0, 0)]


def test_a_task_that_no_worker_knows_fails_and_says_so(story: Story) -> None:
    run = story.runs["unknown"]
    assert run.state is RunState.FAILED
    assert (
        run.reason == f"no worker on queue {run.queue} knows the task {run.task}; is it misspelt, or on another queue?"
    )


def test_a_malformed_message_is_dropped_and_its_worker_goes_on(story: Story) -> None:
    assert story.survived
    assert story.runs["after malformed"].state is RunState.COMPLETED


def test_a_worker_frozen_until_its_run_was_given_up_finishes_into_the_attempt_that_is_over(story: Story) -> None:
    run = story.runs["frozen"]
    assert (run.state, run.attempt) == (RunState.COMPLETED, 2)
    assert [attempt.outcome for attempt in run.attempts] == ["lost"]
    # When it wakes it is told to stop, and may or may not be quicker.
    assert (story.counts("frozen", 1)[0], story.counts("frozen", 2)) == (1, (1, 1))


def test_a_task_past_its_limit_under_a_frozen_main_process_is_given_up_and_ends_into_the_attempt_that_is_over(
    story: Story,
) -> None:
    run = story.runs["unlimited"]
    assert (run.state, run.attempt) == (RunState.COMPLETED, 2)
    assert [attempt.outcome for attempt in run.attempts] == ["lost"]
    assert story.counts("unlimited", 1) == story.counts("unlimited", 2) == (1, 1)
