"""While dispatches or reports are late, rows of later runs and the index wait; neither waits for ever."""

import re
from collections.abc import Callable

import pytest

from itinerary.protocol.instants import MILLISECOND, MINUTE, SECOND, Duration
from scheduler_service.core.leader.commands import BuildIndex, Command, CreateRuns, DispatchRuns
from scheduler_service.core.run_state import RunState
from scheduler_service.loops.write_groups import DispatchCommand
from tests.support.world import World

AHEAD = 10 * SECOND
HALF = AHEAD // 2
STRIDE = AHEAD // 100
JOBS = 2
DISPATCHING = 12 * STRIDE


class SlowMoves(World):
    """While `is_slow`, the database answers no dispatch."""

    def __init__(self) -> None:
        self.is_slow = False
        self.held: list[Command] = []
        super().__init__()

    def carry_out(self, commands: list[Command]) -> None:
        if self.is_slow:
            self.held += [command for command in commands if isinstance(command, DispatchCommand)]
            commands = [command for command in commands if not isinstance(command, DispatchCommand)]
        super().carry_out(commands)

    def answer(self) -> None:
        self.is_slow = False
        held, self.held = self.held, []
        self.carry_out(held)
        self.reconcile()


@pytest.fixture
def world() -> SlowMoves:
    world = SlowMoves()
    for number in range(JOBS):
        world.every(f"job{number}", "1s", overlap="allow")
    world.advance(SECOND)
    assert ahead(world) > AHEAD - DISPATCHING - STRIDE
    return world


def ahead(world: World) -> Duration:
    return world.state.planned.cursor - world.now


def no_reads(world: SlowMoves) -> None:
    world.deaf = True


def no_dispatches(world: SlowMoves) -> None:
    world.is_slow = True


@pytest.mark.parametrize("trouble", [no_reads, no_dispatches])
def test_while_the_leader_is_behind_rows_are_created_half_as_far_ahead_and_never_less(
    world: SlowMoves, trouble: Callable[[SlowMoves], None]
) -> None:
    trouble(world)
    world.advance(2 * SECOND)
    world.commands.clear()
    world.advance(SECOND)
    assert not [command for command in world.commands if isinstance(command, CreateRuns) and command.runs]
    for _ in range(20):
        world.advance(SECOND)
        assert ahead(world) >= HALF - STRIDE
    assert ahead(world) <= HALF


def test_afterwards_planning_catches_up_in_small_parts(world: SlowMoves) -> None:
    world.is_slow = True
    world.advance(8 * SECOND)
    world.answer()
    world.commands.clear()
    for second in range(1, 16):
        world.advance(SECOND)
        assert ahead(world) <= HALF + second * SECOND // 4 + STRIDE
    world.advance(5 * SECOND)
    assert ahead(world) > AHEAD - DISPATCHING - STRIDE
    parts = [len(command.runs) for command in world.commands if isinstance(command, CreateRuns)]
    assert max(parts) <= 2 * JOBS


def test_a_pass_that_comes_late_dispatches_and_creates_few_rows(world: SlowMoves) -> None:
    world.now += 3 * SECOND
    world.commands.clear()
    world.reconcile()
    assert [command for command in world.commands if isinstance(command, DispatchRuns)]
    assert not [command for command in world.commands if isinstance(command, CreateRuns) and command.runs]
    assert ahead(world) >= HALF


def test_what_was_put_off_is_complete_and_starts_in_time(world: SlowMoves) -> None:
    world.deaf = True
    world.advance(20 * SECOND)
    world.deaf = False
    world.advance(20 * SECOND)
    for number in range(JOBS):
        runs = [run for run in world.runs(f"job{number}") if run.due_at < world.now - SECOND]
        times = [run.scheduled_at for run in runs]
        assert times == [times[0] + n * SECOND for n in range(len(times))]
        assert len(times) == 40
        assert {run.state for run in runs} == {RunState.COMPLETED}
        assert all(world.starts(run.run_id)[0] - run.due_at < 50 * MILLISECOND for run in runs)


def test_a_leader_without_work_creates_rows_as_far_ahead_as_it_may(world: SlowMoves) -> None:
    for number in range(JOBS):
        world.delete(f"job{number}")
    world.every("rare", "1m")
    world.advance(30 * SECOND)
    assert ahead(world) > AHEAD - 2 * SECOND


def test_the_index_is_built_half_as_often_while_the_leader_is_behind_and_not_less(world: SlowMoves) -> None:
    def built() -> int:
        return len([command for command in world.commands if isinstance(command, BuildIndex)])

    for number in range(JOBS):
        world.delete(f"job{number}")
    world.advance(MINUTE)
    world.deaf = True
    world.commands.clear()
    world.advance(2 * MINUTE)
    assert built() == 1
    world.deaf = False
    world.commands.clear()
    world.advance(2 * MINUTE)
    assert built() == 2


def test_how_far_ahead_rows_are_created_is_a_metric(world: SlowMoves) -> None:
    def shown() -> float:
        (figure,) = re.findall(r"^scheduler_planned_ahead_seconds (\S+)$", world.meter.exposition(), re.MULTILINE)
        return float(figure)

    assert shown() > 8
    world.deaf = True
    world.advance(10 * SECOND)
    assert 4.5 < shown() <= 5
    world.meter.standing_by()
    assert shown() == 0
