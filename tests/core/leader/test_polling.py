"""Looks into the database: at once when woken, and never so often that they are the work."""

from itinerary.protocol.instants import MILLISECOND, SECOND, Instant
from scheduler_service.core.leader.commands import Command
from scheduler_service.core.leader.iteration import iterate, next_wake
from scheduler_service.core.leader.poll_state import (
    CancelsRead,
    DueRead,
    OverdueRead,
    ReadCancels,
    ReadDue,
    ReadOverdue,
)
from scheduler_service.core.leader.results import Feedback, Woken
from scheduler_service.core.leader.state import CoreSettings, SchedulerState
from scheduler_service.core.leader.taking_over import take_over
from scheduler_service.core.model import ActiveRun, Cursor, RunKind
from scheduler_service.core.run_state import RunState
from tests.support.world import World

T0 = 1_800_000_000 * SECOND


class Looking:
    """A leader that has just taken over, and has looked once."""

    def __init__(self) -> None:
        self.state, _ = take_over(CoreSettings(), 1, Cursor(T0, "0-0"), (), (), T0)
        assert self.polls(T0)
        assert not self.polls(T0, DueRead(()))

    def polls(self, now: Instant, *messages: Feedback) -> bool:
        commands: list[Command]
        self.state, commands = iterate(self.state, messages, now)
        return any(isinstance(command, ReadDue) for command in commands)

    def wake(self, now: Instant) -> Instant:
        state: SchedulerState = self.state
        return next_wake(state, now)


def far(number: int) -> ActiveRun:
    at = T0 + 365 * 24 * 3600 * SECOND
    return ActiveRun(f"adhoc_{number}", RunKind.ADHOC, None, None, "default", 5, at, at, RunState.SCHEDULED)


def test_a_wakeup_is_looked_after_at_once() -> None:
    assert Looking().polls(T0 + SECOND, Woken())


def test_a_second_wakeup_waits_until_the_look_in_hand_has_come_back_and_a_moment_longer() -> None:
    leader = Looking()
    assert leader.polls(T0 + SECOND, Woken())
    assert not leader.polls(T0 + SECOND + MILLISECOND, Woken())
    assert not leader.polls(T0 + SECOND + 2 * MILLISECOND, DueRead(()))
    due = leader.wake(T0 + SECOND + 3 * MILLISECOND)
    assert due == T0 + SECOND + 22 * MILLISECOND
    assert leader.polls(due), "the wakeup is not forgotten"


def test_the_pause_grows_with_what_a_look_finds() -> None:
    leader = Looking()
    assert leader.polls(T0 + SECOND, Woken())
    assert not leader.polls(T0 + SECOND, DueRead(tuple(far(n) for n in range(5000))), Woken())
    assert not leader.polls(T0 + SECOND + 500 * MILLISECOND)
    assert leader.polls(T0 + SECOND + 520 * MILLISECOND)


def test_a_look_whose_answer_is_lost_holds_up_nothing_for_long() -> None:
    leader = Looking()
    assert leader.polls(T0 + SECOND, Woken())
    assert leader.polls(T0 + 2 * SECOND, Woken())


def test_without_a_wakeup_it_looks_by_its_own_clock() -> None:
    leader = Looking()
    assert not leader.polls(T0 + 4 * SECOND)
    assert leader.polls(T0 + 5 * SECOND)


def test_a_planned_run_that_its_jitter_puts_off_beyond_the_window_is_kept_by_the_next_leader() -> None:
    at = T0 + 3600 * SECOND
    planned = ActiveRun("job_1", RunKind.OCCURRENCE, "job", 1, "default", 5, T0, at, RunState.SCHEDULED)
    state, _ = take_over(CoreSettings(), 1, Cursor(T0 + 1, "0-0"), (), (planned, far(1)), T0)
    assert state.runs.get("job_1") == planned
    assert state.runs.get("adhoc_1") is None, "what was asked for is found again in time"


def test_planned_runs_are_looked_for_only_when_they_are_overdue() -> None:
    state, commands = take_over(CoreSettings(), 1, Cursor(T0, "0-0"), (), (), T0)
    state, commands = iterate(state, (), T0)
    assert [look.until for look in commands if isinstance(look, ReadDue)] == [T0 + 10 * SECOND]
    assert [look.until for look in commands if isinstance(look, ReadOverdue)] == [T0 - 5 * SECOND]


def test_a_look_at_what_is_overdue_goes_on_where_the_last_one_stopped_and_then_begins_anew() -> None:
    state, _ = take_over(CoreSettings(), 1, Cursor(T0, "0-0"), (), (), T0)
    asked = []
    answers = {1: OverdueRead((), ("q", 5)), 2: OverdueRead((), ("q", 9))}
    for second in (0, 1, 2, 8, 15):
        answer = answers.get(second)
        state, commands = iterate(state, [answer] if answer else [], T0 + second * SECOND)
        asked += [(second, look.after) for look in commands if isinstance(look, ReadOverdue)]
        state, commands = iterate(state, [], T0 + second * SECOND + 600 * MILLISECOND)
        asked += [(second, look.after) for look in commands if isinstance(look, ReadOverdue)]
    assert asked == [(0, None), (1, ("q", 5)), (2, ("q", 9)), (8, None), (15, None)]


def test_a_look_at_cancel_requests_goes_on_where_the_last_one_stopped() -> None:
    state, _ = take_over(CoreSettings(), 1, Cursor(T0, "0-0"), (), (), T0)
    asked = []
    for second, answer in ((0, None), (1, CancelsRead((), (7,))), (5, None), (10, None)):
        state, commands = iterate(state, [answer] if answer else [], T0 + second * SECOND)
        asked += [look.after for look in commands if isinstance(look, ReadCancels)]
    assert asked == [None, (7,), None]


def test_a_run_that_is_over_in_memory_alone_is_found() -> None:
    world = World()
    world.every("a", "10s")
    world.advance(5 * SECOND)
    (run, *_) = world.runs("a")
    known = world.state.runs.get(run.run_id)
    assert known is not None
    world.state.runs.put(known._replace(state=RunState.SKIPPED))
    world.advance(20 * SECOND)
    assert world.run(run.run_id).state is RunState.COMPLETED


def test_a_planned_run_that_memory_lost_is_found() -> None:
    world = World()
    world.every("lost", "1m")
    world.advance(55 * SECOND)
    (run, *_) = world.runs("lost")
    world.state.runs.drop(run.run_id)
    world.advance(20 * SECOND)
    assert world.run(run.run_id).state is RunState.COMPLETED
