"""Redis loses data, or is another process: nothing runs twice, everything pending goes out again, no report is lost."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from itinerary.protocol.instants import MINUTE, SECOND, Instant
from scheduler_service.core.leader.commands import AcceptEpoch, DispatchRuns, TakeClaims
from scheduler_service.core.leader.iteration import iterate
from scheduler_service.core.leader.redis_epoch import GATHER_AT_MOST, accepted, poll
from scheduler_service.core.leader.results import EpochAccepted, InboxRead, Shutdown
from scheduler_service.core.leader.step import Step
from scheduler_service.core.run_state import RunState
from tests.support.world import World, attempt_of

FLUSHED = ["wiped", "another process"]


@pytest.fixture
def world() -> World:
    """A leader that has heard its one worker for a while."""
    world = World()
    for _ in range(5):
        world.advance(2 * SECOND)
        world.workers.beat()
    return world


@pytest.fixture(params=FLUSHED)
def change(request: pytest.FixtureRequest, world: World) -> None:
    """Used by tests that hold for both: they call `world.change`."""
    world.change = world.wipe if request.param == "wiped" else world.restart_redis  # type: ignore[attr-defined]


def beats(world: World, seconds: int) -> None:
    """Time passes, and a heartbeat comes every two seconds from a worker that lives."""
    for _ in range(seconds // 2):
        world.advance(2 * SECOND)
        if world.workers.alive:
            world.workers.beat()


def forget_what_the_leader_read(world: World) -> None:
    """The next messages are lost before anybody reads them."""
    world.inbox.wipe()


def test_a_new_redis_is_accepted_at_once_where_nothing_is_out() -> None:
    world = World()
    assert world.claims.query_epoch().accepted
    run_id = world.enqueue()
    assert world.starts(run_id) == [world.run(run_id).due_at]


def test_after_a_wipe_the_pending_go_out_again_and_the_running_one_is_started_once(world: World) -> None:
    world.workers.seconds = 20
    running = world.enqueue()
    world.workers.listening = False
    pending = [world.enqueue() for _ in range(3)]
    world.wipe()
    world.workers.listening = True
    beats(world, 40)
    assert [len(world.starts(run_id)) for run_id in (running, *pending)] == [1, 1, 1, 1]
    assert {world.run(run_id).state for run_id in (running, *pending)} == {RunState.COMPLETED}
    assert 'scheduler_republished_total{cause="generation"} 3.0' in world.meter.exposition()


def test_the_same_attempt_goes_out_again_under_its_own_id_with_a_new_number(world: World) -> None:
    world.workers.listening = False
    run_id = world.enqueue()
    world.wipe()
    world.advance(5 * SECOND)
    first, second = [run for run in world.dispatcher.published if run.run_id == run_id]
    assert first.attempt == second.attempt == 1
    assert first.seq < second.seq


def test_a_restart_that_lost_nothing_is_over_within_seconds(world: World) -> None:
    world.workers.seconds = 20
    running = world.enqueue()
    world.workers.listening = False
    pending = world.enqueue()
    world.restart_redis()
    at = world.now
    world.workers.listening = True
    beats(world, 4)
    (started,) = world.starts(pending)
    assert started - at < 3 * SECOND
    beats(world, 30)
    assert len(world.starts(running)) == 1
    assert world.run(running).state is RunState.COMPLETED


def test_a_draining_leader_still_lets_claims_through_that_wait_for_it(world: World) -> None:
    world.workers.listening = False
    pending = world.enqueue()
    world.mailbox.put(Shutdown(draining=True))
    world.reconcile()
    world.restart_redis()
    world.workers.listening = True
    beats(world, 6)
    assert len(world.starts(pending)) == 1


def test_a_start_that_redis_lost_before_the_leader_read_it_is_said_by_the_worker(world: World) -> None:
    """Without the workers' word the run would be sent again, and started again, while it runs."""
    world.workers.behave = lambda attempt: None
    world.inbox.send = lambda *args: None  # type: ignore[method-assign]
    run_id = world.enqueue()
    del world.inbox.send
    world.tell("run_enqueued", run_ids=[run_id])
    world.reconcile()
    started_unheard(world, run_id)
    world.wipe()
    beats(world, 20)
    assert len(world.starts(run_id)) == 1
    assert world.run(run_id).state is RunState.RUNNING


def started_unheard(world: World, run_id: str) -> None:
    """The run is started by its worker, and its `started` is lost."""
    assert world.starts(run_id)
    row = world.store.tables.runs[run_id]
    row.state, row.started_at, row.worker = RunState.PENDING, None, None
    world.lead()
    for _ in range(4):
        world.advance(2 * SECOND)
        world.tell("heartbeat", worker="w2", running=[], received=[], concurrency=1, queues=[])
    assert world.run(run_id).state is RunState.PENDING


def test_a_report_that_redis_lost_before_the_leader_read_it_arrives_all_the_same(world: World) -> None:
    run_id = world.enqueue()
    kind, body = "succeeded", {"result": "kept", "task_id": attempt_of(run_id), "worker": "w1"}
    world.workers.endings.clear()
    world.workers.running.clear()
    world.workers.reports.append((world.now, kind, body))
    world.wipe()
    world.advance(3 * SECOND)
    run = world.run(run_id)
    assert (run.state, run.result) == (RunState.COMPLETED, "kept")
    assert len(world.starts(run_id)) == 1


@pytest.mark.usefixtures("change")
def test_nothing_starts_before_the_workers_have_spoken(world: World) -> None:
    world.tell("heartbeat", worker="slow", running=[], received=[], concurrency=1, queues=["default"])
    world.workers.listening = False
    run_id = world.enqueue()
    world.advance(SECOND)
    world.change()  # type: ignore[attr-defined]
    world.workers.listening = True
    world.advance(2 * SECOND)
    assert world.starts(run_id) == []
    assert not world.claims.query_epoch().accepted
    name = world.claims.query_epoch().name
    world.tell("heartbeat", worker="slow", running=[], received=[], concurrency=1, queues=[], generation=name)
    world.advance(SECOND)
    assert len(world.starts(run_id)) == 1


@pytest.mark.usefixtures("change")
def test_a_worker_that_does_not_speak_is_waited_for_so_long_and_no_longer(world: World) -> None:
    world.tell("heartbeat", worker="frozen", running=[], received=[], concurrency=1, queues=["default"])
    world.workers.listening = False
    run_id = world.enqueue()
    world.change()  # type: ignore[attr-defined]
    at = world.now
    world.workers.listening = True
    beats(world, 20)
    (started,) = world.starts(run_id)
    assert GATHER_AT_MOST <= started - at <= GATHER_AT_MOST + 2 * SECOND


def test_a_heartbeat_of_the_epoch_before_is_not_the_word_that_is_waited_for(world: World) -> None:
    world.workers.listening = False
    world.enqueue()
    old = world.claims.query_epoch().name
    world.workers.alive = False
    world.wipe()
    world.advance(SECOND)
    world.tell("heartbeat", worker="w1", running=[], received=[], concurrency=4, queues=["default"], generation=old)
    world.advance(SECOND)
    assert not world.claims.query_epoch().accepted


def test_a_leader_that_has_just_taken_over_knows_no_worker_and_waits_for_all(world: World) -> None:
    world.workers.behave = lambda attempt: None
    running = world.enqueue()
    world.wipe()
    world.workers.epoch = world.claims.query_epoch().name  # it has said nothing of this yet
    world.lead()
    at = world.now
    world.tell("heartbeat", worker="quick", running=[], received=[], concurrency=1, queues=[],
               generation=world.claims.query_epoch().name)  # fmt: skip
    world.advance(4 * SECOND)
    assert not world.claims.query_epoch().accepted
    world.workers.beat()
    beats(world, 10)
    assert world.claims.query_epoch().accepted
    assert world.now - at >= GATHER_AT_MOST
    assert len(world.starts(running)) == 1


def test_a_leader_that_could_not_listen_since_it_took_over_knows_no_worker_and_waits_for_all(world: World) -> None:
    world.workers.behave = lambda attempt: None
    running = world.enqueue()
    row = world.store.tables.runs[running]
    row.state, row.started_at, row.worker = RunState.PENDING, None, None  # its start is lost with Redis
    world.lead()
    quick = {"worker": "quick", "running": [], "received": [], "concurrency": 1, "queues": []}
    world.tell("heartbeat", **quick)
    world.reconcile()
    world.deaf = True
    world.advance(2 * GATHER_AT_MOST)
    world.deaf = False
    world.wipe()
    world.workers.epoch = world.claims.query_epoch().name  # it has said nothing of this yet
    world.tell("heartbeat", **quick, generation=world.claims.query_epoch().name)
    world.advance(3 * SECOND)
    assert not world.claims.query_epoch().accepted
    world.workers.beat()
    beats(world, 10)
    assert world.claims.query_epoch().accepted
    assert len(world.starts(running)) == 1


def test_time_in_which_the_inbox_cannot_be_read_is_no_time_to_speak(world: World) -> None:
    world.workers.behave = lambda attempt: None
    world.enqueue()
    world.workers.alive = False
    world.wipe()
    world.advance(SECOND)
    world.deaf = True
    world.advance(20 * SECOND)
    world.deaf = False
    world.advance(GATHER_AT_MOST - SECOND)
    assert not world.claims.query_epoch().accepted
    world.workers.alive = True
    world.advance(SECOND)
    assert world.claims.query_epoch().accepted


def test_a_leader_that_stood_still_reads_to_the_end_before_it_accepts(world: World) -> None:
    """It wakes when the time is up; what the workers said meanwhile lies unread."""
    world.workers.behave = lambda attempt: None
    run_id = world.enqueue()
    started_unheard(world, run_id)
    world.tell("heartbeat", worker="w1", running=[], received=[], concurrency=4, queues=["default"])
    world.workers.alive = False
    world.wipe()
    world.advance(SECOND)
    world.now += GATHER_AT_MOST
    name = world.claims.query_epoch().name
    world.tell("heartbeat", worker="w1", running=[attempt_of(run_id)], received=[], concurrency=4, queues=[],
               generation=name)  # fmt: skip
    world.renewer.confirm()
    world.state, commands = iterate(world.state, [], world.renewer.now())
    world.carry_out(commands)
    assert not world.claims.query_epoch().accepted
    beats(world, 10)
    assert world.claims.query_epoch().accepted
    assert len(world.starts(run_id)) == 1


def test_what_waits_for_its_claim_is_not_taken_for_running(world: World) -> None:
    world.workers.listening = False
    run_id = world.enqueue()
    world.workers.waiting.append((attempt_of(run_id), 1))
    world.wipe()
    world.advance(2 * SECOND)
    world.workers.listening = True
    world.advance(2 * SECOND)
    assert world.run(run_id).state is RunState.COMPLETED
    assert len(world.starts(run_id)) == 1


def test_a_message_from_before_the_loss_starts_nothing_though_its_claim_is_gone(world: World) -> None:
    """A broker of its own keeps the messages while claims are lost; a stale copy of Redis brings messages back."""
    run_id = world.enqueue()
    seq = world.dispatcher.published[-1].seq
    world.advance(SECOND)
    world.claims.wipe()
    world.inbox.wipe()
    world.lead()  # the new leader does not know of the run, which is over
    beats(world, 10)
    world.workers.deliver(attempt_of(run_id), seq)
    assert len(world.starts(run_id)) == 1


def test_a_second_loss_while_the_first_is_dealt_with_begins_anew(world: World) -> None:
    world.workers.behave = lambda attempt: None
    running = world.enqueue()
    world.tell("heartbeat", worker="slow", running=[], received=[], concurrency=1, queues=["default"])
    world.reconcile()
    world.wipe()
    world.advance(5 * SECOND)
    world.wipe()
    world.advance(5 * SECOND)
    assert not world.claims.query_epoch().accepted
    beats(world, 10)
    assert world.claims.query_epoch().accepted
    assert len(world.starts(running)) == 1


def test_a_leader_that_dies_before_it_accepts_leaves_that_to_the_next(world: World) -> None:
    world.workers.listening = False
    pending = [world.enqueue() for _ in range(3)]
    world.workers.alive = False
    world.wipe()
    world.advance(2 * SECOND)
    world.workers.alive = world.workers.listening = True
    world.lead(wait=10 * SECOND)
    beats(world, 20)
    assert [len(world.starts(run_id)) for run_id in pending] == [1, 1, 1]


def test_a_leader_that_dies_once_it_has_accepted_leaves_the_sending_to_the_next(world: World) -> None:
    world.workers.listening = False
    pending = [world.enqueue() for _ in range(3)]
    world.wipe()
    world.claims.accept(world.claims.query_epoch().name, world.state.numbers.next())
    world.dispatcher.accept(world.dispatcher.server, world.state.numbers.next())
    world.workers.listening = True
    world.lead(wait=2 * SECOND)
    world.advance(3 * SECOND)
    assert [len(world.starts(run_id)) for run_id in pending] == [1, 1, 1]


def test_a_move_that_comes_back_after_the_watermark_was_set_is_sent_by_a_new_message(world: World) -> None:
    run_id = world.enqueue(after=2 * SECOND)
    kept: list[DispatchRuns] = []
    do, world._store_writer.dispatch = world._store_writer.dispatch, kept.extend  # type: ignore[method-assign]
    world.advance(2 * SECOND)
    world._store_writer.dispatch = do  # type: ignore[method-assign]
    world.claims.accept(world.claims.query_epoch().name, 1 << 50)
    world.advance(SECOND)
    world._store_writer.dispatch(kept)
    world.advance(3 * SECOND)
    assert world.run(run_id).state is RunState.COMPLETED
    assert len(world.starts(run_id)) == 1


def test_a_claim_is_not_taken_for_a_cancel_before_the_worker_that_may_hold_it_has_spoken(world: World) -> None:
    world.workers.behave = lambda attempt: None
    run_id = world.enqueue()
    started_unheard(world, run_id)
    world.tell("heartbeat", worker="w1", running=[], received=[], concurrency=4, queues=["default"])
    world.workers.alive = False
    world.wipe()
    assert world.cancel(run_id).state is RunState.PENDING
    world.workers.alive = True
    beats(world, 10)
    assert world.run(run_id).state is RunState.RUNNING
    assert attempt_of(run_id) in world.dispatcher.revoked


def test_a_cancel_of_a_pending_run_goes_on_once_the_epoch_is_accepted(world: World) -> None:
    world.workers.listening = False
    run_id = world.enqueue()
    world.wipe()
    world.cancel(run_id)
    world.advance(5 * SECOND)
    assert world.run(run_id).state is RunState.CANCELLED
    assert world.starts(run_id) == []


def test_the_flags_of_running_runs_that_are_to_stop_are_set_again(world: World) -> None:
    world.workers.behave = lambda attempt: None
    run_id = world.enqueue()
    world.cancel(run_id)
    world.wipe()
    beats(world, 6)
    assert attempt_of(run_id) in world.claims.flagged


class TestBrokerOfItsOwn:
    def test_when_it_loses_its_data_the_pending_go_out_again_at_once(self, world: World) -> None:
        world.workers.listening = False
        pending = [world.enqueue() for _ in range(3)]
        world.dispatcher.wipe()
        world.workers.listening = True
        world.advance(2 * SECOND)
        assert [len(world.starts(run_id)) for run_id in pending] == [1, 1, 1]

    def test_while_it_is_away_claims_are_accepted_all_the_same(self, world: World) -> None:
        world.dispatcher.away = True
        world.claims.wipe()
        world.inbox.wipe()
        world.advance(3 * SECOND)
        assert world.claims.query_epoch().accepted

    def test_what_it_accepted_is_not_sent_again(self, world: World) -> None:
        world.workers.listening = False
        world.enqueue()
        world.advance(MINUTE)
        world.lead()
        world.advance(5 * SECOND)
        assert len(world.dispatcher.published) == 1


class TestInbox:
    def test_a_stream_that_began_anew_is_read_from_its_start(self, world: World) -> None:
        """Its entries have lower numbers than the position: the clock of its host may have stepped."""
        world.workers.behave = lambda attempt: None
        run_id = world.enqueue()
        position = world.state.inbox.position
        world.wipe()
        world.tell("succeeded", task_id=attempt_of(run_id), worker="w1", result="early")
        world.advance(2 * SECOND)
        assert world.run(run_id).result == "early"
        assert _number(world.state.inbox.position) < _number(position)

    def test_the_position_is_committed_before_the_epoch_is_accepted(self, world: World) -> None:
        """Else the next leader would trust a position of the stream before."""
        order: list[str] = []
        apply, accept = world.store.leader.apply, world.claims.accept
        world.store.leader.apply = lambda lease, batch: (  # type: ignore[method-assign]
            order.append(batch.position or ""), apply(lease, batch)
        )[1]  # fmt: skip
        world.claims.accept = lambda name, watermark: order.append("accepted") or accept(name, watermark)  # type: ignore[method-assign]
        position = world.state.inbox.position
        world.wipe()
        world.advance(2 * SECOND)
        assert _number(order[order.index("accepted") - 1]) < _number(position)

    def test_the_next_leader_reads_from_the_new_stream(self, world: World) -> None:
        world.workers.behave = lambda attempt: None
        run_id = world.enqueue()
        world.wipe()
        world.advance(2 * SECOND)
        world.tell("succeeded", task_id=attempt_of(run_id), worker="w1", result=3)
        world.lead()
        world.advance(SECOND)
        assert world.run(run_id).result == 3

    def test_what_is_read_again_is_not_kept_as_late(self, world: World) -> None:
        runs = [world.enqueue() for _ in range(3)]
        world.advance(SECOND)
        world.restart_redis()
        world.advance(5 * SECOND)
        late = [row.late for (run_id, _), row in world.store.tables.attempts.items() if run_id in runs]
        assert late == []

    def test_nothing_unread_is_trimmed_from_a_stream_that_began_anew(self, world: World) -> None:
        from scheduler_service.core.leader.commands import TrimInbox

        position = world.state.inbox.position
        world.wipe()
        world.inbox.send("run_enqueued", world.now, {"run_ids": []})
        world.carry_out([TrimInbox(position)])
        assert world.inbox.depth() == 1


def test_silence_while_redis_was_lost_makes_no_run_lost(world: World) -> None:
    world.workers.seconds = 100
    run_id = world.enqueue()
    world.advance(20 * SECOND)
    world.wipe()
    beats(world, 100)
    assert world.run(run_id).state is RunState.COMPLETED


def _number(position: str) -> Instant:
    return int(position.partition("-")[0])


def test_a_redis_that_drops_data_when_it_is_full_is_named_as_an_error_once_a_term(world: World) -> None:
    world.claims.eviction_policy = lambda: "allkeys-lru"  # type: ignore[method-assign]
    with capture_logs() as logged:
        world.lead()
        world.advance(5 * SECOND)
    errors = [entry for entry in logged if entry["log_level"] == "error"]
    assert [entry["policy"] for entry in errors] == ["allkeys-lru"]


def test_a_redis_that_does_not_answer_is_looked_at_again(world: World) -> None:
    world.claims.away = True
    world.advance(5 * SECOND)
    world.claims.away = False
    world.restart_redis()
    world.advance(3 * SECOND)
    assert world.claims.query_epoch().accepted


def test_what_is_read_before_the_inbox_begins_anew_moves_no_position(world: World) -> None:
    """It would be a position in a stream that is no more, beyond entries of the new one that nobody read."""
    before, world.deaf = world.state.inbox.position, True
    world.wipe()
    world.advance(2 * SECOND)
    assert world.state.epoch.rereading
    world.state, _ = iterate(world.state, [InboxRead((), "99-0")], world.now)
    assert world.state.inbox.position == before != "99-0"
    world.state, _ = iterate(world.state, [InboxRead((), "1-0", restarted=True)], world.now)
    assert world.state.inbox.position == "1-0"


class TestReady:
    """When a new generation may be accepted, looked at alone: too soon, and a claim that is lost is given twice."""

    @pytest.fixture
    def world(self, world: World) -> World:
        present = world.state.epoch
        present.gathering, present.since = "another", world.now
        present.rereading, present.committed, present.knows_all = False, True, True
        return world

    @staticmethod
    def accepts(world: World) -> bool:
        step = Step(world.now + MINUTE)
        world.state.epoch.accepting, world.state.epoch._next_try_at = False, 0
        poll(world.state, step)
        return any(isinstance(command, AcceptEpoch) for command in step.others)

    def test_only_once_the_inbox_was_read_anew_and_its_position_is_committed(self, world: World) -> None:
        present = world.state.epoch
        for rereading, committed in ((True, False), (True, True), (False, False)):
            present.rereading, present.committed = rereading, committed
            assert not self.accepts(world)
        present.rereading, present.committed = False, True
        assert self.accepts(world)

    def test_a_run_on_its_way_out_counts_as_out(self, world: World) -> None:
        world.state.dispatches.begin("default", ["a"])
        assert not self.accepts(world)
        world.state.dispatches.answered("a")
        assert self.accepts(world)

    def test_workers_that_left_are_not_waited_for_and_all_others_are(self, world: World) -> None:
        world.state.dispatches.begin("default", ["a"])  # so that the workers' word is wanted
        view, *_ = world.state.workers.by_name.values()
        world.state.workers.seen(replace(view, epoch="another"))
        assert self.accepts(world)
        world.state.workers.seen(replace(view, name="gone", left=True))
        assert self.accepts(world)
        world.state.workers.seen(replace(view, name="silent"))
        assert not self.accepts(world)

    def test_an_idle_worker_without_a_slot_is_waited_for_until_it_leaves(self, world: World) -> None:
        world.state.dispatches.begin("default", ["a"])
        idle = {"worker": "idle", "running": [], "received": [], "concurrency": 0, "queues": ["default"]}
        for leaving in (False, True):
            world.tell("heartbeat", **idle, leaving=leaving)
            world.reconcile()
            for view in list(world.state.workers.by_name.values()):
                if not view.left:
                    spoken = "another" if view.name != "idle" else None
                    world.state.workers.seen(replace(view, epoch=spoken))
            assert self.accepts(world) is leaving

    def test_deferred_claims_are_asked_for_once(self, world: World) -> None:
        world.state.epoch.deferred += [("a", 1)]
        asked = []
        for _ in range(2):
            step = Step(world.now)
            world.state.epoch.gathering = "another"
            accepted(world.state, step, EpochAccepted("another", None, 1))
            asked += [command for command in step.others if isinstance(command, TakeClaims)]
        assert [command.attempts for command in asked] == [(("a", 1),)]
