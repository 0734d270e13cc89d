"""The promises of several leaders at once (manual/scaling.md), by seeded histories; each rule is broken once.

A failing seed says how to play it again: `python -m tests.support.partition_simulation SEED`. PARTITION_HISTORIES=1000
plays so many.
"""

import os
import random
from dataclasses import fields, replace
from typing import Any

import pytest

from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.instants import MILLISECOND, SECOND, Duration
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.model import NewRun, RunKind
from scheduler_service.core.run_state import RunState
from tests.support.partition_simulation import PartitionSimulation, simulate
from tests.support.partitions import Design, Owners, slice_of_job
from tests.support.simulated_leader import SimLeader
from tests.support.simulated_worker import SimWorker
from tests.support.simulation import without_logs

BY = AuditedChange("user", "operator", "queue.pause")
FAST, CHUNK = 5, 50
HISTORIES = int(os.environ.get("PARTITION_HISTORIES", "55"))
# Of these, any history of a few dozen shows what breaks; of the others, only the order of events that a scene plays.
SEEN_IN_HISTORIES = (
    "ends_terms", "fences_late_leaders", "limit_in_one_slice", "own_watermarks",
)  # fmt: skip


def without(rule: str) -> Design:
    return Design(**{rule: False})


def bad(seeds: range) -> str:
    return "\n".join(str(outcome) for outcome in map(simulate, seeds) if outcome.wrong)


def test_histories_in_which_slices_move_keep_every_promise() -> None:
    assert not bad(range(FAST))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FAST, HISTORIES, CHUNK))
def test_more_histories_in_which_slices_move_keep_every_promise(first: int) -> None:
    assert not bad(range(first, min(first + CHUNK, HISTORIES)))


def test_slices_do_move_and_the_same_seed_is_the_same_history() -> None:
    first, second = (simulate(3, tracing=True) for _ in range(2))
    assert first == second
    assert first.moves > 0


@pytest.mark.parametrize("rule", SEEN_IN_HISTORIES)
def test_a_design_without_a_rule_is_seen_to_fail(rule: str) -> None:
    assert any(simulate(seed, without(rule)).wrong for seed in range(40))


class Scene(PartitionSimulation):
    """Two partitions in which nothing breaks but what the test breaks; tasks last as long as it says."""

    def __init__(self, design: Design, workers: int = 2, ahead: Duration = 30 * SECOND) -> None:
        super().__init__(1, design)
        self.calm, self.slow, self.lasts = True, 5 * MILLISECOND, 100 * MILLISECOND
        self.unsure = self.losing = self.doubling = self.shuffling = self.redelivering = 0
        # An idle partition stores its cursor every ten seconds: with this, a slice may move at any time.
        self.settings = replace(self.settings, pre_schedule_interval=ahead, publish_window=10_000)
        self.owners = Owners(self.store.tables, design, 2)
        self._stand_by()
        self.play(5 * SECOND)
        self.workers = [SimWorker(self, f"w{number}") for number in range(workers)]

    def lasting(self) -> Duration:
        return self.lasts

    def outcome(self, attempt: str) -> tuple[str, dict[str, Any]]:
        return "succeeded", {"result": attempt}

    def play(self, length: Duration) -> None:
        self.play_until(self.t + length)

    def enqueue(self, partition: int = 0) -> str:
        """A run of a slice of this partition."""
        names = map(adhoc_run_id, map(str, range(100)))
        run_id = next(one for one in names if self.owners.of_slice[slice_of_job(one)] == partition)
        self.store.runs.enqueue([NewRun(run_id, RunKind.ADHOC, "demo.task", self.t, self.t)])
        self.send("run_enqueued", {"run_ids": [run_id]})
        return run_id

    def put_job(self) -> str:
        """A job of every second, of partition 0."""
        job_id = next(one for one in map(str, range(100)) if self.owners.owner_of_job(one) == 0)
        body = {"job_id": job_id, "task": "demo.task", "schedule": {"kind": "interval", "every": "1s"}}
        self.store.jobs.replace(read_job(body, created_at=self.t)[0], None)
        self.send("job_changed", {"job_id": job_id, "change": "modified"})
        return job_id

    def play_until_started(self) -> None:
        for _ in range(2_000):
            if self.log:
                return
            self.play(5 * MILLISECOND)
        raise AssertionError("nothing started")

    def leader(self, partition: int) -> SimLeader:
        term = self.store.tables.leases[partition].term
        return next(one for one in self.leaders if one.name == f"leader {term}")

    def move(self, run_id: str) -> None:
        """The slice of the run, from 0 to 1, once both may."""
        for _ in range(1_000):
            if self.owners.move(slice_of_job(run_id), 1, self.database_now()):
                return
            self.play(20 * MILLISECOND)
        raise AssertionError("the move was refused")

    def wrong(self) -> tuple[str, ...]:
        self.play(90 * SECOND)
        return self.judged().wrong


def a_receiver_that_has_not_planned_for_long(design: Design) -> Scene:
    """An idle partition stores its cursor rarely; occurrences that the giver skipped since lie in a missed range."""
    scene = Scene(design, ahead=SECOND)
    scene.lasts = 12 * SECOND
    job_id = scene.put_job()
    scene.play(8 * SECOND)
    scene.move(job_id)
    scene.play(20 * SECOND)
    scene.store.jobs.delete(job_id, None)
    return scene


def claims_lost_before_a_move(design: Design) -> Scene:
    """Redis loses a claim; the receiver has nothing in flight and accepts the epoch before the run is its own."""
    scene = Scene(design)
    scene.lasts = 60 * SECOND
    run_id = scene.enqueue()
    scene.play_until_started()
    scene.leader(0).freeze(5 * SECOND)
    for part in (scene.inbox, scene.claims, scene.dispatcher):
        part.wipe()
    scene.play(1_500 * MILLISECOND)
    scene.lasts = 10 * MILLISECOND
    scene.enqueue(1)  # its end commits that the receiver has read what the workers run
    scene.play(200 * MILLISECOND)
    scene.move(run_id)
    return scene


def a_copy_of_a_message_after_a_move(design: Design) -> Scene:
    """A message comes once more after its run ended elsewhere; nobody leads the partition that sent it."""
    scene = Scene(design)
    scene.lasts = SECOND
    run_id = scene.enqueue()
    scene.play_until_started()
    copy = next(run for run in scene.dispatcher.published if run.run_id == run_id)
    scene.unled.add(0)
    scene.move(run_id)
    scene.play(30 * SECOND)
    scene.dispatcher.queues[copy.queue].append(copy)
    scene.play(5 * SECOND)
    scene.unled.clear()
    return scene


def a_recall_before_a_move(design: Design) -> Scene:
    """The giver has had more terms than the receiver, and has recalled a message."""
    scene = Scene(design, workers=0)
    for _ in range(3):
        scene.leader(0).die("killed")
        scene.play(5 * SECOND)
    run_id = scene.enqueue()
    scene.play(2 * SECOND)
    scene.store.queues.pause("default", "what is recalled waits", None, by=BY)
    scene.send("control_changed", {})
    scene.play(100 * MILLISECOND)
    while scene.store.tables.runs[run_id].state is RunState.PENDING:
        scene.leader(0).recall_some(random.Random(1))
        scene.play(100 * MILLISECOND)
    scene.move(run_id)
    scene.store.queues.resume("default", by=BY)
    scene.workers = [SimWorker(scene, "w")]
    return scene


def reports_that_nobody_read_before_a_move(design: Design) -> Scene:
    """A run starts and ends, and moves before the giver has read of either."""
    scene = Scene(design)
    scene.lasts = 10 * MILLISECOND
    run_id = scene.enqueue()
    scene.play_until_started()
    scene.leader(0).freeze(4 * SECOND)
    scene.play(200 * MILLISECOND)
    for worker in scene.workers:
        worker.die("killed")  # or it would report again what it reported in the last minute
    scene.workers = [SimWorker(scene, "another")]
    scene.move(run_id)
    return scene


SCENES = {
    "needs_cursors_ahead": a_receiver_that_has_not_planned_for_long,
    "begins_an_epoch": claims_lost_before_a_move,
    "keeps_claims": a_copy_of_a_message_after_a_move,
    "one_sequence_of_terms": a_recall_before_a_move,
    "forwards_reports": reports_that_nobody_read_before_a_move,
}


@pytest.mark.parametrize("rule", SCENES)
def test_a_scene_ends_well_by_the_design_and_badly_without_the_rule_that_it_is_about(rule: str) -> None:
    with without_logs():
        assert SCENES[rule](Design()).wrong() == ()
        assert SCENES[rule](without(rule)).wrong()


def test_every_rule_of_the_design_is_broken_once() -> None:
    assert {*SEEN_IN_HISTORIES, *SCENES} == {rule.name for rule in fields(Design)}
