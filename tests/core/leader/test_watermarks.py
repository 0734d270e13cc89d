"""The low watermark of a queue: what is over is forgotten once no message can start it; nothing pending is refused."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.protocol.instants import HOUR, MINUTE, SECOND
from scheduler_service.core.leader.parts.watermarks import Watermarks
from scheduler_service.core.model import DispatchedRun
from scheduler_service.core.run_state import RunState
from tests.support.world import World, attempt_of


@pytest.fixture
def world() -> World:
    return World()


def message_of(world: World, run_id: str) -> DispatchedRun:
    """The last message that was sent of this run."""
    return next(run for run in reversed(world.dispatcher.published) if run.run_id == run_id)


def held_back(world: World) -> str:
    """A pending run whose message is not taken by anybody."""
    world.workers.listening = False
    run_id = world.enqueue()
    assert world.dispatcher.pop_run("default") is not None
    world.workers.listening = True
    return run_id


def test_a_second_message_of_a_run_that_is_over_and_forgotten_starts_nothing(world: World) -> None:
    run_id = world.enqueue()
    world.advance(5 * SECOND)
    assert world.run(run_id).state is RunState.COMPLETED
    assert attempt_of(run_id) not in world.claims.holders, "its claim would be kept for ever"
    world.workers.deliver(attempt_of(run_id), message_of(world, run_id).seq)
    world.advance(5 * SECOND)
    assert len(world.starts(run_id)) == 1


def test_a_claim_is_kept_while_a_message_before_its_own_can_still_start_something(world: World) -> None:
    waiting = held_back(world)
    run_id = world.enqueue()
    world.advance(5 * SECOND)
    assert world.run(run_id).state is RunState.COMPLETED
    assert attempt_of(run_id) in world.claims.holders
    world.workers.deliver(attempt_of(run_id), message_of(world, run_id).seq)
    assert len(world.starts(run_id)) == 1
    world.workers.deliver(attempt_of(waiting), message_of(world, waiting).seq)
    world.advance(5 * SECOND)
    assert world.run(waiting).state is RunState.COMPLETED
    assert world.claims.holders == {}


@pytest.mark.parametrize("new_leader", [False, True])
def test_a_message_that_a_worker_holds_starts_its_run_although_a_copy_was_sent_after_it(
    world: World, new_leader: bool
) -> None:
    held = held_back(world)
    first = message_of(world, held)
    world.workers.listening = False
    world.advance(50 * SECOND)
    copy = world.dispatcher.pop_run("default")
    assert copy is not None
    assert copy.seq > first.seq
    if new_leader:
        world.lead()
    world.workers.listening = True
    others = [world.enqueue() for _ in range(3)]
    world.advance(5 * SECOND)
    assert [len(world.starts(other)) for other in others] == [1, 1, 1]
    world.workers.deliver(attempt_of(held), first.seq)
    world.advance(5 * SECOND)
    assert world.run(held).state is RunState.COMPLETED
    world.workers.deliver(attempt_of(held), copy.seq)
    world.advance(5 * SECOND)
    assert len(world.starts(held)) == 1
    assert world.claims.holders == {}


def test_a_queue_does_not_wait_for_another_s_pending_runs(world: World) -> None:
    world.workers.listening = False
    world.enqueue(queue="nobody")
    world.workers.listening = True
    run_id = world.enqueue()
    world.advance(5 * SECOND)
    assert attempt_of(run_id) not in world.claims.holders


def test_nothing_pending_is_ever_below_the_watermark_of_its_queue(world: World) -> None:
    world.every("a", "1s", overlap="allow")
    for number in range(40):
        world.workers.listening = number % 7 < 4
        world.advance(SECOND)
        for run in world.state.runs:
            if run.state is RunState.PENDING:
                assert run.seq >= world.claims.watermark_of(run.queue)
    world.workers.listening = True
    world.advance(5 * SECOND)
    assert [len(world.starts(run.run_id)) for run in world.runs("a") if run.due_at < world.now] == [1] * 45


def test_nothing_is_kept_of_a_queue_once_every_pending_message_is_newer_than_its_own(world: World) -> None:
    """Queues come and go, one a customer: their names must not stay. What they refused is refused all the same."""
    world.workers.listening = False
    stuck = world.enqueue(queue="nobody")
    runs = {queue: world.enqueue(queue=queue) for queue in ("one", "two")}
    sent = {queue: world.dispatcher.pop_run(queue) for queue in runs}
    for run_id in runs.values():
        world.cancel(run_id)
    world.advance(3 * SECOND)
    assert world.claims.watermarks.keys() == {"one", "two"}  # above the message that is stuck
    world.cancel(stuck)
    world.advance(3 * SECOND)
    assert world.claims.watermarks == {}
    assert world.claims.holders == {}
    for queue, run_id in runs.items():
        message = sent[queue]
        assert message is not None
        assert world.claims.ask(attempt_of(run_id), "token", queue, message.seq) == "stale"


def test_a_long_pending_run_starts_however_many_queues_come_and_go(world: World) -> None:
    world.workers.listening = False
    stuck = world.enqueue(queue="nobody")
    first = world.dispatcher.pop_run("nobody")
    for number in range(5):
        world.cancel(world.enqueue(queue=f"q{number}"))
        world.advance(3 * SECOND)
    assert first is not None
    assert world.claims.ask(attempt_of(stuck), "token", "nobody", first.seq) == "won"


def test_a_new_low_watermark_of_all_queues_is_no_reason_to_send_anything_again(world: World) -> None:
    world.workers.listening = False
    run_id = world.enqueue()
    for number in range(5):
        world.cancel(world.enqueue(queue=f"q{number}"))
        world.advance(2 * SECOND)
    assert [run.run_id for run in world.dispatcher.published].count(run_id) == 1
    assert world.state.epoch.watermark == world.claims.query_epoch().watermark == message_of(world, run_id).seq


def test_the_watermarks_say_no_word_while_nothing_changes(world: World) -> None:
    world.enqueue()
    world.advance(5 * SECOND)
    said: list[object] = []
    raise_watermarks = world.claims.raise_watermarks
    world.claims.raise_watermarks = lambda *asked: said.append(asked) or raise_watermarks(*asked)  # type: ignore[method-assign]
    world.advance(MINUTE)
    assert said == []


def test_a_watermark_that_redis_did_not_take_is_said_again(world: World) -> None:
    run_id = world.enqueue()
    world.claims.away = True
    world.advance(3 * SECOND)
    world.claims.away = False
    world.advance(3 * SECOND)
    assert world.claims.watermark_of("default") > message_of(world, run_id).seq
    assert attempt_of(run_id) not in world.claims.holders


def test_an_end_is_forgotten_only_once_it_is_committed(world: World) -> None:
    run_id = world.enqueue()
    apply = world.store.leader.apply

    def forgotten_too_soon(*args: object) -> object:
        assert attempt_of(run_id) in world.claims.holders
        return apply(*args)  # type: ignore[arg-type]

    world.store.leader.apply = forgotten_too_soon  # type: ignore[method-assign, assignment]
    world.advance(5 * SECOND)
    assert world.run(run_id).state is RunState.COMPLETED
    assert attempt_of(run_id) not in world.claims.holders


@pytest.mark.slow
def test_an_attempt_before_a_retry_is_forgotten_too(world: World) -> None:
    error = {"type": "ValueError", "message": "no", "traceback": None}
    world.workers.behave = lambda attempt: ("failed", {"error": error})
    world.every("a", "1h", retry={"max_attempts": 2, "initial": "30s", "jitter": False})
    world.advance(60 * MINUTE + 5 * SECOND)
    (run, *_) = world.runs("a")
    assert run.state is RunState.RETRYING
    assert world.claims.holders == {}
    world.workers.deliver(attempt_of(run.run_id), message_of(world, run.run_id).seq)
    assert len(world.starts(run.run_id)) == 1


def test_what_was_given_up_keeps_its_claim_and_its_flag_since_its_worker_may_live(world: World) -> None:
    world.workers.behave = lambda attempt: None
    run_id = world.enqueue()
    world.workers.die()
    world.advance(2 * MINUTE)
    assert world.run(run_id).reason == "lost"
    assert attempt_of(run_id) in world.claims.flagged
    assert attempt_of(run_id) in world.claims.holders


def test_a_run_that_was_cancelled_unstarted_is_forgotten_and_stays_unstarted(world: World) -> None:
    world.workers.listening = False
    run_id = world.enqueue()
    world.cancel(run_id)
    world.advance(3 * SECOND)
    assert world.claims.holders == {}
    world.workers.listening = True
    world.advance(3 * SECOND)
    assert world.starts(run_id) == []


def test_a_new_leader_takes_the_watermark_from_the_pending_rows(world: World) -> None:
    waiting = held_back(world)
    for _ in range(3):
        world.enqueue()
    world.advance(5 * SECOND)
    world.lead()
    world.advance(3 * SECOND)
    assert world.claims.watermark_of("default") <= message_of(world, waiting).seq
    world.workers.deliver(attempt_of(waiting), message_of(world, waiting).seq)
    assert len(world.starts(waiting)) == 1


def test_numbers_go_on_above_the_watermarks_of_a_database_that_is_no_more(world: World) -> None:
    world.claims.watermarks["default"] = 99 << 32
    run_id = world.enqueue()
    world.advance(5 * SECOND)
    assert world.run(run_id).state is RunState.COMPLETED
    assert message_of(world, run_id).seq > 99 << 32


def test_numbers_go_on_above_the_epoch_of_a_database_that_is_no_more() -> None:
    world = World()
    world.claims.accept(world.claims.query_epoch().name, 99 << 32)
    world.lead()
    run_id = world.enqueue()
    world.advance(5 * SECOND)
    assert len(world.starts(run_id)) == 1


class TestWatermarks:
    """The structure alone."""

    def test_of_several_messages_of_an_attempt_the_first_counts_and_of_the_next_attempt_its_own(self) -> None:
        watermarks = Watermarks()
        watermarks.in_flight("q", "a", 1, 5)
        watermarks.in_flight("q", "a", 1, 9)
        assert watermarks.to_raise(100) == {"q": 5}
        watermarks.in_flight("q", "a", 2, 12)
        assert watermarks.raised({"q": 5}) == []
        assert watermarks.to_raise(100) == {"q": 12}

    def test_of_what_another_leader_sent_no_message_is_refused(self) -> None:
        watermarks = Watermarks()
        watermarks.taken_over("q", "a", 1)
        watermarks.in_flight("q", "a", 1, 9)
        assert watermarks.to_raise(100) == {"q": 0}

    def test_where_nothing_is_out_the_watermark_is_the_next_number(self) -> None:
        watermarks = Watermarks()
        watermarks.in_flight("q", "a", 1, 5)
        watermarks.gone("a")
        assert watermarks.to_raise(100) == {"q": 100}

    def test_an_end_that_the_database_refused_is_not_forgotten(self) -> None:
        watermarks = Watermarks()
        watermarks.ended("q", 5, "a", 1)
        watermarks.still_running("a", 1)
        watermarks.in_flight("q", "b", 1, 9)
        assert watermarks.raised(watermarks.to_raise(100)) == []

    def test_a_watermark_passes_what_lies_below_it_and_not_what_stands_at_it(self) -> None:
        watermarks = Watermarks()
        watermarks.ended("q", 5, "a", 1)
        watermarks.committed("a", 1)
        assert watermarks.raised({"q": 5}) == []
        assert watermarks.raised({"q": 6}) == [("a", 1)]

    def test_the_end_of_a_later_attempt_waits_for_its_own_commit(self) -> None:
        watermarks = Watermarks()
        watermarks.ended("q", 5, "a", 1)
        watermarks.ended("q", 7, "a", 2)
        watermarks.committed("a", 1)
        assert watermarks.raised({"q": 9}) == [("a", 1)]
        watermarks.committed("a", 2)
        assert watermarks.raised({"q": 9}) == [("a", 2)]

    def test_the_lowest_of_all_queues_is_that_of_the_oldest_message_in_any(self) -> None:
        watermarks = Watermarks()
        watermarks.in_flight("q", "a", 1, 5)
        watermarks.in_flight("p", "b", 1, 6)
        assert (watermarks.to_raise(100), watermarks.lowest(100)) == ({"q": 5, "p": 6}, 5)
        watermarks.raised({"q": 5, "p": 6})
        watermarks.gone("a")
        assert (watermarks.to_raise(100), watermarks.lowest(100)) == ({"q": 100}, 6)
        watermarks.raised({"q": 100})
        watermarks.gone("b")
        watermarks.taken_over("r", "c", 1)
        assert (watermarks.to_raise(100), watermarks.lowest(100)) == ({"p": 100, "r": 0}, 0)
        watermarks.raised({"p": 100, "r": 0})
        watermarks.gone("c")
        assert (watermarks.to_raise(100), watermarks.lowest(100)) == ({"r": 100}, 100)

    def test_one_question_is_under_way_at_a_time(self) -> None:
        watermarks = Watermarks()
        watermarks.in_flight("q", "a", 1, 5)
        assert watermarks.to_raise(100) == {"q": 5}
        watermarks.in_flight("p", "b", 1, 6)
        assert watermarks.to_raise(100) == {}
        watermarks.raised({"q": 5})
        assert watermarks.to_raise(100) == {"p": 6}

    def test_memory_is_bounded_by_what_is_out_not_by_what_ever_was(self) -> None:
        watermarks = Watermarks()
        watermarks.in_flight("q", "stuck", 1, 1)
        for seq in range(2, 50_000):
            watermarks.in_flight("q", f"r{seq}", 1, seq)
            watermarks.gone(f"r{seq}")
            if seq % 1000 == 0:
                watermarks.raised(watermarks.to_raise(seq))
        assert watermarks.to_raise(50_000) == {"q": 1}
        assert len(watermarks._seqs["q"]) < 4_000

    @given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["out", "gone", "end", "commit", "raise"]))))
    def test_it_agrees_with_a_plain_list_of_all_messages(self, audit_entries: list[tuple[int, str]]) -> None:
        watermarks, plain = Watermarks(), _Plain()
        for seq, (number, change) in enumerate(audit_entries, start=1):
            run_id = f"run{number}"
            calls: dict[str, Callable[[Watermarks | _Plain], object]] = {
                "out": lambda one, run_id=run_id, seq=seq: one.in_flight("q", run_id, 1, seq),
                "gone": lambda one, run_id=run_id: one.gone(run_id),
                "end": lambda one, run_id=run_id, seq=seq: one.ended("q", seq - 1, run_id, 1),
                "commit": lambda one, run_id=run_id: one.committed(run_id, 1),
                "raise": lambda one, seq=seq: sorted(one.raised(one.to_raise(seq))),
            }
            assert calls[change](watermarks) == calls[change](plain)


class _Plain:
    """The same rules, each question answered by looking at everything."""

    def __init__(self) -> None:
        self._out: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._committed: list[tuple[int, str]] = []
        self._touched = False

    def in_flight(self, queue: str, run_id: str, attempt: int, seq: int) -> None:
        if run_id not in self._out:
            self._out[run_id] = seq
            self._touched = True

    def gone(self, run_id: str) -> None:
        self._touched = self._out.pop(run_id, None) is not None or self._touched

    def ended(self, queue: str, seq: int, run_id: str, attempt: int) -> None:
        self._ends[run_id] = seq

    def committed(self, run_id: str, attempt: int) -> None:
        seq = self._ends.pop(run_id, None)
        if seq is not None:
            self._committed.append((seq, run_id))
            self._touched = True

    def to_raise(self, next_seq: int) -> dict[str, int]:
        touched, self._touched = self._touched, False
        return {"q": min(self._out.values(), default=next_seq)} if touched else {}

    def raised(self, watermarks: dict[str, int]) -> list[tuple[str, int]]:
        watermark = watermarks.get("q", 0)
        passed = [(run_id, 1) for seq, run_id in self._committed if seq < watermark]
        self._committed = [one for one in self._committed if one[0] >= watermark]
        return passed


@pytest.mark.slow
def test_an_hour_of_runs_leaves_nothing_behind(world: World) -> None:
    world.every("a", "20s")
    world.advance(HOUR + SECOND)
    assert len([run for run in world.runs("a") if run.state is RunState.COMPLETED]) == 180
    assert world.claims.holders == {}
    assert world.state.watermarks._ended == {}
