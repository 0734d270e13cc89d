"""However many jobs are edited, they are read and planned a batch at a time, and no job's past is read again."""

import pytest

from itinerary.protocol.instants import MILLISECOND, SECOND
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.leader.commands import CreateRuns, ReadJobs
from scheduler_service.core.leader.edits import MOST_ROWS
from scheduler_service.core.leader.iteration import iterate, next_wake
from scheduler_service.core.leader.parts.edits import EditQueue
from scheduler_service.core.leader.results import RunsCreated, UnplannedJobs
from scheduler_service.core.limits import Bounds, Limit
from scheduler_service.core.run_state import RunState
from tests.support.world import SOMEBODY, World

IDS = [f"job-{number:03d}" for number in range(100)]


@pytest.fixture
def edits() -> EditQueue:
    queue = EditQueue()
    queue.note(IDS)
    return queue


def test_a_batch_is_in_hand_from_its_read_to_its_last_commit_and_the_next_rests_as_long_as_that_took(
    edits: EditQueue,
) -> None:
    assert edits.take(0) == tuple(IDS[:25])
    assert edits.take(SECOND) == ()
    edits.read(25, 2 * SECOND)
    edits.committed(20, 2 * SECOND)
    assert (edits.take(3 * SECOND), edits.next_at()) == ((), None)
    edits.committed(5, SECOND // 2)
    assert (edits.take(SECOND - 1), edits.next_at()) == ((), SECOND)
    assert edits.take(SECOND) == tuple(IDS[25:50])


def test_a_rest_is_at_most_a_second_and_nothing_is_planned_of_jobs_that_are_no_news(edits: EditQueue) -> None:
    edits.take(0)
    edits.read(0, 20 * SECOND)
    assert edits.next_at() == 21 * SECOND


def test_batches_grow_while_they_are_quick_and_shrink_while_they_are_slow(edits: EditQueue) -> None:
    def batch(took: int) -> int:
        nonlocal now
        found = edits.take(now)
        edits.note(found)
        edits.read(0, now := now + took)
        now += 2 * SECOND
        return len(found)

    now = 0
    assert [batch(MILLISECOND) for _ in range(3)] == [25, 50, 100]
    assert [batch(100 * MILLISECOND) for _ in range(2)] == [100, 100]
    edits.note(f"more-{number}" for number in range(1_000))
    assert [batch(MILLISECOND) for _ in range(3)] == [200, 400, 400]
    assert [batch(SECOND) for _ in range(6)] == [400, 200, 100, 50, 25, 25]


def test_a_job_edited_again_while_it_waits_is_read_once_and_one_edited_while_it_is_read_again(edits: EditQueue) -> None:
    edits.note(IDS)
    edits.take(0)
    edits.note(IDS[:1])
    read: list[str] = []
    for now in range(SECOND, 5 * SECOND, SECOND):
        edits.read(0, now)
        read += edits.take(now + SECOND)
    assert read == [*IDS[25:], IDS[0]]


def test_an_answer_that_never_comes_ends_no_edits(edits: EditQueue) -> None:
    edits.take(0)
    assert edits.take(30 * SECOND - 1) == ()
    assert edits.take(30 * SECOND) == tuple(IDS[25:50])


@pytest.mark.slow
def test_many_edits_are_written_in_small_transactions_one_batch_after_the_other() -> None:
    world = World()
    for job_id in IDS:
        body = {"job_id": job_id, "task": "demo.task", "schedule": {"kind": "interval", "every": "1s"}}
        world.store.jobs.create(read_job(body, created_at=world.now)[0])
    world.lead()
    for job_id in IDS:
        world.store.jobs.set_paused(job_id, True, None, None)
        world.store.jobs.set_paused(job_id, False, None, None)
    batch: tuple[str, ...] = ()
    world.mailbox.put(UnplannedJobs(tuple(IDS)))
    for _ in range(30):
        messages = world.mailbox.drain(0)
        world.state, commands = iterate(world.state, messages, world.now)
        asked = [one.job_ids for one in commands if isinstance(one, ReadJobs)]
        done = sum(one.planned for one in messages if isinstance(one, RunsCreated))
        assert not asked or not batch or done
        batch = asked[0] if asked else batch
        written = [one for one in commands if isinstance(one, CreateRuns) and one.planned]
        assert all(len(one.runs) + len(one.planned) < MOST_ROWS + 20 for one in written)
        world.carry_out(commands)
    assert world.store.leader.unplanned_jobs(1) == []
    assert next_wake(world.state, world.now) > world.now


def test_an_edit_of_limits_reaches_the_rows_that_are_not_dispatched() -> None:
    world = World()
    for limit in (Limit("api", Bounds(9)), Limit("tenant", Bounds(9), per_key=True)):
        world.store.limits.edit(limit.name, lambda _, limit=limit: limit, by=SOMEBODY)

    def waiting() -> set[tuple[str, str | None]]:
        runs = [run for run in world.runs("often") if run.state is RunState.SCHEDULED]
        assert runs
        for run in runs:
            in_memory = world.state.runs.get(run.run_id)
            assert in_memory is not None
            assert (in_memory.limits, in_memory.lane) == (run.limits, run.lane)
        return {(run.lane, ",".join(map(str, run.limits))) for run in runs}

    world.every("often", "2s")
    assert waiting() == {("", "")}
    keyed = {"name": "tenant", "key": {"from": "kwargs.tenant"}}
    world.every("often", "2s", limits=[keyed, "api"], kwargs={"tenant": "acme"})
    assert waiting() == {('limits:[["tenant","acme"]]', "tenant/acme,api")}
    world.every("often", "2s", limits=[keyed], kwargs={"tenant": "other"})
    assert waiting() == {('limits:[["tenant","other"]]', "tenant/other")}
    world.every("often", "2s", fair_key="acme")
    assert waiting() == {("key:acme", "")}


def test_an_edit_reads_no_version_that_was_over_and_planned_before() -> None:
    world = World()
    for number in range(5):
        world.every("often", "10s", args=[number])
        world.advance(SECOND)
    world.advance(20 * SECOND)
    world.commands.clear()
    world.every("often", "10s", args=["last"])
    (read,) = [one for one in world.commands if isinstance(one, ReadJobs)]
    assert read.since > world.now
    (history,) = world.store.leader.histories_of(read.job_ids, read.since)
    assert [job.version for job in history.versions] == [6]
