"""Runs of a queue with a rate, through a whole leader: what counts as a start, what is given back, what is stored."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from itinerary.protocol.identity import split_task_id
from itinerary.protocol.instants import HOUR, MILLISECOND, MINUTE, SECOND, Duration
from itinerary.protocol.limits import LimitUse, lane_of
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.core.leader.commands import Apply
from scheduler_service.core.leader.iteration import next_wake
from scheduler_service.core.leader.parts.rates import RatedUse
from scheduler_service.core.leader.past_starts import PruneStarts
from scheduler_service.core.limits import Bounds, Limit, Rate
from scheduler_service.core.run_state import RunState
from tests.support.examples import examples
from tests.support.fake_rows import QueueRow
from tests.support.gate import Gate, waiting
from tests.support.world import World

RATE = Rate(3, 10 * SECOND)
QUEUE = LimitUse("queue:default")
DONE, LIES, WAITS = RunState.COMPLETED, RunState.PENDING, RunState.SCHEDULED


def set_rate(world: World, rate: Rate | None = RATE) -> None:
    tables = world.store.tables
    tables.queues["default"] = QueueRow(bounds=Bounds(rate=rate))
    tables.control += 1
    world.tell("control_changed")
    world.reconcile()


@pytest.fixture
def world() -> World:
    """A leader that has listened for long enough, and the rate."""
    world = World()
    world.advance(10 * SECOND)
    set_rate(world)
    return world


def begun(world: World) -> list[float]:
    """Seconds since the first start."""
    times = sorted(at for at, _ in world.workers.started)
    return [round((at - times[0]) / SECOND, 1) for at in times]


def over(world: World, rate: Rate = RATE) -> list[int]:
    """How many starts each window has that has too many."""
    times = [at for at, _ in world.workers.started]
    counts = [sum(last - rate.per < at <= last for at in times) for last in times]
    return [count for count in counts if count > rate.count]


def test_a_start_goes_when_one_leaves_the_window_and_not_at_a_poll(world: World) -> None:
    for _ in range(7):
        world.enqueue()
    world.advance(3 * SECOND + 300 * MILLISECOND)
    now = world.renewer.now()
    assert next_wake(world.state, now) <= now + world.settings.loop_interval
    world.advance(20 * SECOND)
    assert begun(world) == [0, 0, 0, 10, 10, 10, 20]


def test_a_free_token_wakes_the_leader_at_its_time(world: World) -> None:
    for _ in range(4):
        world.enqueue()
    world.advance(9_700 * MILLISECOND)
    assert len(begun(world)) == 3
    now = world.renewer.now()
    assert next_wake(world.state, now) - now == 300 * MILLISECOND


def test_what_was_moved_while_no_worker_was_there_does_not_start_at_once_when_one_comes(world: World) -> None:
    world.workers.listening = False
    run_ids = [world.enqueue() for _ in range(9)]
    world.advance(MINUTE)
    assert [world.run(run_id).state for run_id in run_ids] == [LIES] * 3 + [WAITS] * 6
    world.workers.listening = True
    world.advance(30 * SECOND)
    assert begun(world) == [0, 0, 0, 10, 10, 10, 20, 20, 20]


def test_a_start_counts_from_when_it_is_heard(world: World) -> None:
    world.deaf = True
    for _ in range(3):
        world.enqueue()
    world.deaf = False
    world.reconcile()
    world.deaf = True
    world.advance(5 * SECOND)
    world.deaf = False
    for _ in range(3):
        world.enqueue()
    world.advance(30 * SECOND)
    assert over(world) == []


@pytest.mark.parametrize("wait", [0, 4 * SECOND])
def test_the_next_leader_counts_what_was_committed_and_hears_the_rest_again(world: World, wait: Duration) -> None:
    run_ids = [world.enqueue() for _ in range(2)]
    world.advance(SECOND)
    world.deaf = True
    run_ids += [world.enqueue() for _ in range(6)]
    world.lead(wait=wait)
    world.deaf = False
    world.advance(MINUTE)
    assert over(world) == []
    assert [world.run(run_id).state for run_id in run_ids] == [DONE] * len(run_ids)
    assert begun(world)[-1] < 36


def test_each_start_is_stored_with_its_report_and_pruned_when_it_counts_no_longer(world: World) -> None:
    world.enqueue()
    ((use, _, count),) = world.store.tables.starts
    assert (use, count) == (QUEUE, 1)
    (write,) = [one for one in world.commands if isinstance(one, Apply) and any(t.starts for t in one.transitions)]
    assert write.position is not None, "in the transaction that commits how far the inbox was read"
    world.advance(30 * SECOND)
    assert world.store.tables.starts == []
    world.commands.clear()
    world.advance(MINUTE)
    assert not any(isinstance(one, PruneStarts) for one in world.commands)


def test_the_next_leader_prunes_what_counts_no_longer_and_rests(world: World) -> None:
    world.enqueue()
    world.lead(wait=HOUR)
    assert world.store.tables.starts != [], "not among the first writes of a leader"
    assert world.state.rates.room(RatedUse(QUEUE, Rate(1, SECOND))) == 1, "nor read"
    world.advance(20 * SECOND)
    assert world.store.tables.starts == []
    world.commands.clear()
    world.advance(MINUTE)
    assert not any(isinstance(one, PruneStarts) for one in world.commands)


def test_who_has_no_rate_stores_nothing() -> None:
    world = World()
    world.enqueue()
    world.lead(wait=0)
    world.advance(MINUTE)
    assert world.store.tables.starts == []
    assert not any(isinstance(one, PruneStarts) for one in world.commands)
    assert not any(t.starts for one in world.commands if isinstance(one, Apply) for t in one.transitions)


def test_retries_are_starts(world: World) -> None:
    world.workers.behave = lambda attempt: ("failed", {"error": {"type": "E", "message": "x", "traceback": None}})
    world.enqueue(retry=RetryPolicy(max_attempts=5, initial=SECOND, jitter=False))
    world.advance(MINUTE)
    assert len(begun(world)) == 5
    assert over(world) == []


def test_a_recalled_run_is_given_back_and_goes_again(world: World) -> None:
    world.workers.listening = False
    a, b, c, d = [world.enqueue() for _ in range(4)]
    world.advance(10 * SECOND)
    assert world.run(d).state is WAITS
    assert world.recall(a) == 1
    world.advance(SECOND)
    states = [world.run(run_id).state for run_id in (a, b, c, d)]
    assert states.count(LIES) == 3
    world.workers.listening = True
    world.advance(30 * SECOND)
    assert over(world) == []
    assert len(begun(world)) == 4


def test_a_run_that_is_cancelled_before_it_starts_costs_no_start(world: World) -> None:
    world.workers.listening = False
    first = [world.enqueue() for _ in range(3)]
    later = [world.enqueue() for _ in range(3)]
    world.advance(5 * SECOND)
    for run_id in first:
        world.cancel(run_id)
    world.advance(SECOND)
    assert [world.run(run_id).state for run_id in later] == [LIES] * 3


def test_an_end_whose_start_was_never_heard_counts_as_one(world: World) -> None:
    tell = world.tell
    world.tell = lambda kind, **body: None if kind == "started" else tell(kind, **body)  # type: ignore[method-assign]
    for _ in range(6):
        world.enqueue()
    world.advance(MINUTE)
    assert len(begun(world)) == 6
    assert over(world) == []
    assert world.store.tables.starts == []


@pytest.mark.parametrize(
    ("step", "fails_over"),
    [
        (3 * HOUR, False), (3 * HOUR, True), (4 * SECOND, False), (4 * SECOND, True), (900 * MILLISECOND, True),
        (-3 * HOUR, False), (-4 * SECOND, True),
    ],
)  # fmt: skip
def test_a_step_of_the_database_s_clock_frees_nothing_and_blocks_nothing(
    world: World, step: Duration, fails_over: bool
) -> None:
    for _ in range(9):
        world.enqueue()
    world.advance(2 * SECOND)
    world.database_ahead += step
    if fails_over:
        world.lead()
    world.advance(MINUTE)
    assert over(world) == []
    assert begun(world)[-1] < 36
    assert len(begun(world)) == 9


def test_a_step_of_long_ago_frees_nothing_at_a_takeover_either(world: World) -> None:
    rate = Rate(3, 2 * MINUTE)
    set_rate(world, rate)
    for _ in range(6):
        world.enqueue()
    world.advance(SECOND)
    world.database_ahead += HOUR
    world.advance(50 * SECOND)
    world.lead()
    world.advance(4 * MINUTE)
    assert over(world, rate) == []
    assert begun(world)[-1] < 200


def test_redis_that_loses_everything_starts_no_more(world: World) -> None:
    for _ in range(12):
        world.enqueue()
    world.advance(SECOND)
    world.wipe()
    world.restart_redis()
    world.advance(2 * MINUTE)
    assert over(world) == []
    assert len(begun(world)) == 12


def test_a_run_takes_a_start_of_each_limit_that_it_names_and_of_its_queue(world: World) -> None:
    tables = world.store.tables
    tables.limits["api"] = Limit("api", Bounds(rate=Rate(2, 10 * SECOND)))
    tables.limits["tenant"] = Limit("tenant", Bounds(rate=Rate(1, 20 * SECOND)), per_key=True)
    set_rate(world, Rate(5, 10 * SECOND))
    uses = [(LimitUse("api"),)] * 5 + [(LimitUse("tenant", key),) for key in "aab"] + [()] * 6
    run_ids = [world.enqueue(limits=one, lane=lane_of(one)) for one in uses]
    for _ in range(60):
        world.workers.beat()
        world.advance(SECOND)
    assert [world.run(run_id).state for run_id in run_ids] == [DONE] * 14
    assert over(world, Rate(5, 10 * SECOND)) == []
    of = dict(zip(run_ids, uses, strict=True))
    for use, rate in ((LimitUse("api"), Rate(2, 10 * SECOND)), (LimitUse("tenant", "a"), Rate(1, 20 * SECOND))):
        times = [at for at, attempt in world.workers.started if use in of[split_task_id(attempt)[0]]]
        assert max(sum(last - rate.per < at <= last for at in times) for last in times) == rate.count
    assert begun(world)[-1] < 33


def test_a_new_rate_counts_what_is_in_flight() -> None:
    world = World()
    world.advance(10 * SECOND)
    world.workers.listening = False
    for _ in range(5):
        world.enqueue()
    world.advance(SECOND)
    set_rate(world)
    later = [world.enqueue() for _ in range(2)]
    world.advance(20 * SECOND)
    assert [world.run(run_id).state for run_id in later] == [WAITS] * 2
    world.workers.listening = True
    world.advance(20 * SECOND)
    assert begun(world) == [0] * 5 + [10, 10]


def test_a_new_rate_counts_what_runs() -> None:
    one = Gate()
    one.beat()
    one.due(waiting("a"))
    one.go("a")
    one.edit(of_q=Limit("", Bounds(rate=Rate(1, 10 * SECOND))))
    assert one.due(waiting("b")) == []


def test_a_rate_that_has_keys_no_more_counts_all_starts_together() -> None:
    one, bounds = Gate(), Bounds(rate=Rate(2, 10 * SECOND))
    one.edit(tenant=Limit("", bounds, per_key=True))
    one.beat()
    assert sorted(one.due(*(waiting(f"{key}{n}", ("tenant", key)) for key in "ab" for n in range(3)))) == [
        "a0", "a1", "b0", "b1",
    ]  # fmt: skip
    for run_id in ("a0", "a1", "b0", "b1"):
        one.go(run_id)
    assert one.edit(tenant=Limit("", bounds)) == []
    assert one.step(after=9 * SECOND) == []
    assert len(one.step(after=2 * SECOND)) == 2


class Trouble:
    """What happens to one world, by the dice."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.world = World()
        self.world.advance(10 * SECOND)
        set_rate(self.world)
        self.world.workers.seconds = self.dice.choice((0.05, 3))
        self.known: list[str] = []

    def play(self) -> None:
        what: list[Callable[[], object]] = [
            self.enqueue, self.enqueue, self.enqueue, self.pass_time, self.pass_time, self.deaf, self.worker, self.lead,
            self.step, self.recall, self.wipe, self.cancel,
        ]  # fmt: skip
        for _ in range(25):
            self.dice.choice(what)()
        self.world.deaf, self.world.workers.listening = False, True
        self.world.reconcile()
        self.world.advance(20 * SECOND)

    def enqueue(self) -> None:
        for _ in range(self.dice.randint(1, 3)):
            self.known.append(self.world.enqueue(retry=RetryPolicy(max_attempts=2, initial=SECOND)))

    def pass_time(self) -> None:
        self.world.advance(int(self.dice.choice((0.3, 2, 9)) * SECOND))

    def deaf(self) -> None:
        self.world.deaf = not self.world.deaf

    def worker(self) -> None:
        self.world.workers.listening = not self.world.workers.listening

    def lead(self) -> None:
        self.world.lead(wait=self.dice.choice((0, 6 * SECOND)))

    def step(self) -> None:
        step = self.dice.choice((HOUR, 3 * SECOND, -3 * SECOND, -HOUR))
        self.world.database_ahead += step
        if step < 0 or self.dice.random() < 0.5:  # a leader whose clock comes back gives up its term
            self.world.lead(wait=self.dice.choice((0, 6 * SECOND)))

    def recall(self) -> None:
        if pending := [run_id for run_id in self.known if self.world.run(run_id).state is LIES]:
            self.world.recall(*pending)

    def wipe(self) -> None:
        self.world.wipe()
        self.world.restart_redis()

    def cancel(self) -> None:
        if self.known:
            self.world.cancel(self.dice.choice(self.known))


@pytest.mark.slow
@settings(deadline=None, database=None, max_examples=examples(40), suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_no_window_has_too_many_starts_in_any_interleaving(seed: int) -> None:
    trouble = Trouble(seed)
    trouble.play()
    attempts = {attempt: at for at, attempt in trouble.world.workers.started}
    trouble.world.workers.started = [(at, attempt) for attempt, at in attempts.items()]
    assert over(trouble.world) == []
