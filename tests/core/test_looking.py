"""Looks into the database: at once when woken, and never so often that they are the work."""

from scheduler_service.core.effects import Effect, ReadDue
from scheduler_service.core.feedback import DueRead, Feedback, Woken
from scheduler_service.core.instants import MILLISECOND, SECOND, Instant
from scheduler_service.core.iteration import iterate, next_wake, take_over
from scheduler_service.core.model import ActiveRun, Cursor, RunKind
from scheduler_service.core.run_state import RunState
from scheduler_service.core.state import CoreSettings, SchedulerState

T0 = 1_800_000_000 * SECOND


class Looking:
    """A leader that has just taken over, and has looked once."""

    def __init__(self) -> None:
        self.state, _ = take_over(CoreSettings(), 1, Cursor(T0, "0-0"), (), (), T0)
        assert self.looks(T0)
        assert not self.looks(T0, DueRead((), full=False))

    def looks(self, now: Instant, *messages: Feedback) -> bool:
        effects: list[Effect]
        self.state, effects = iterate(self.state, messages, now)
        return any(isinstance(effect, ReadDue) for effect in effects)

    def wake(self, now: Instant) -> Instant:
        state: SchedulerState = self.state
        return next_wake(state, now)


def far(number: int) -> ActiveRun:
    at = T0 + 365 * 24 * 3600 * SECOND
    return ActiveRun(f"adhoc_{number}", RunKind.ADHOC, None, None, "default", 5, at, at, RunState.SCHEDULED)


def test_a_wakeup_is_looked_after_at_once() -> None:
    assert Looking().looks(T0 + SECOND, Woken())


def test_a_second_wakeup_waits_until_the_look_in_hand_has_come_back_and_a_moment_longer() -> None:
    leader = Looking()
    assert leader.looks(T0 + SECOND, Woken())
    assert not leader.looks(T0 + SECOND + MILLISECOND, Woken())
    assert not leader.looks(T0 + SECOND + 2 * MILLISECOND, DueRead((), full=False))
    due = leader.wake(T0 + SECOND + 3 * MILLISECOND)
    assert due == T0 + SECOND + 22 * MILLISECOND
    assert leader.looks(due), "the wakeup is not forgotten"


def test_the_pause_grows_with_what_a_look_finds() -> None:
    leader = Looking()
    assert leader.looks(T0 + SECOND, Woken())
    assert not leader.looks(T0 + SECOND, DueRead(tuple(far(n) for n in range(5000)), full=False), Woken())
    assert not leader.looks(T0 + SECOND + 500 * MILLISECOND)
    assert leader.looks(T0 + SECOND + 520 * MILLISECOND)


def test_a_look_whose_answer_is_lost_holds_up_nothing_for_long() -> None:
    leader = Looking()
    assert leader.looks(T0 + SECOND, Woken())
    assert leader.looks(T0 + 2 * SECOND, Woken())


def test_without_a_wakeup_it_looks_by_its_own_clock() -> None:
    leader = Looking()
    assert not leader.looks(T0 + 4 * SECOND)
    assert leader.looks(T0 + 5 * SECOND)


def test_a_planned_run_that_its_jitter_puts_off_beyond_the_window_is_kept_by_the_next_leader() -> None:
    at = T0 + 3600 * SECOND
    planned = ActiveRun("job_1", RunKind.OCCURRENCE, "job", 1, "default", 5, T0, at, RunState.SCHEDULED)
    state, _ = take_over(CoreSettings(), 1, Cursor(T0, "0-0"), (), (planned, far(1)), T0)
    assert state.runs.get("job_1") == planned
    assert state.runs.get("adhoc_1") is None, "what was asked for is found again in time"


def test_planned_runs_are_looked_for_only_when_they_are_overdue() -> None:
    state, effects = take_over(CoreSettings(), 1, Cursor(T0, "0-0"), (), (), T0)
    state, effects = iterate(state, (), T0)
    looks = [effect for effect in effects if isinstance(effect, ReadDue)]
    assert [(look.asked_for, look.until) for look in looks] == [(False, T0 - 5 * SECOND), (True, T0 + 10 * SECOND)]
