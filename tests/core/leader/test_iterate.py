"""The leader as tables: from a state, by these messages, at this time, exactly these commands.

Each row begins with a leader just after its takeover, whose polls and index are on their way.
"""

from collections.abc import Sequence

import pytest

from itinerary.protocol.instants import MINUTE, SECOND, Instant
from scheduler_service.core.leader.commands import (
    Apply,
    Command,
    Dispatch,
    DispatchRuns,
    LateReport,
    Publish,
    RaiseWatermarks,
    ReadRuns,
    Transition,
)
from scheduler_service.core.leader.iteration import iterate
from scheduler_service.core.leader.messages import CancelRun, Failed, RunEnqueued, Started, Succeeded
from scheduler_service.core.leader.results import (
    EpochSeen,
    Feedback,
    InboxRead,
    RunsDispatched,
    RunsRead,
    ServerEpoch,
    Shutdown,
)
from scheduler_service.core.leader.state import CoreSettings, SchedulerState
from scheduler_service.core.leader.taking_over import take_over
from scheduler_service.core.model import ActiveRun, Cursor, DispatchedRun, RunKind
from scheduler_service.core.run_state import Event, RunState

NOW: Instant = 1_764_000_000 * SECOND
LATER: Instant = NOW + SECOND
TERM = 1
FIRST_SEQ = TERM << 32 | 1
ACCEPTED = EpochSeen(ServerEpoch("redis", True, 0), ServerEpoch("redis", True, 0))


def a_run(state: RunState, due_at: Instant = NOW, **fields: object) -> ActiveRun:
    run = ActiveRun("a", RunKind.ADHOC, None, None, "default", 5, due_at, due_at, state)
    return run._replace(**fields)  # type: ignore[arg-type]


PENDING = a_run(RunState.PENDING, seq=FIRST_SEQ, pending_at=NOW, published_at=NOW)
RUNNING = a_run(RunState.RUNNING, seq=FIRST_SEQ, pending_at=NOW, published_at=NOW, started_at=NOW, worker="w")
SOON = a_run(RunState.SCHEDULED, LATER)
MUCH_LATER = a_run(RunState.SCHEDULED, NOW + MINUTE)
SENT = DispatchedRun("a", 1, FIRST_SEQ, TERM, None, "shop.add", [], {}, "default", 5, LATER, LATER, None)
DISPATCHED = DispatchRuns((Dispatch("a", 1, FIRST_SEQ, "default"),), "default")
ERROR = {"type": "ValueError", "message": "no"}


def led(*runs: ActiveRun) -> SchedulerState:
    state, _ = take_over(CoreSettings(), TERM, Cursor(NOW, "0-0", NOW), (), runs, NOW)
    return iterate(state, [ACCEPTED], NOW)[0]


def inbox(*messages: object) -> InboxRead:
    return InboxRead(messages, "1-0")  # type: ignore[arg-type]


def applied(*transitions: Transition, late: tuple[LateReport, ...] = ()) -> Apply:
    return Apply(transitions, late=late, position="1-0", judged_until=NOW)


def ended(event: Event, to: RunState, **fields: object) -> Transition:
    return Transition("a", 1, event, to, LATER, started_at=NOW, worker="w", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("run", "messages", "at", "commands"),
    [
        pytest.param(MUCH_LATER, [], LATER, [], id="a run that is not due waits"),
        pytest.param(
            SOON, [], LATER,
            [DISPATCHED, RaiseWatermarks({"default": FIRST_SEQ}, FIRST_SEQ)],
            id="a run that is due is dispatched",
        ),
        pytest.param(SOON, [], LATER - 1, [], id="a microsecond before, it is not"),
        pytest.param(
            SOON, [Shutdown()], LATER, [DISPATCHED], id="a stop comes after what is due in its pass",
        ),
        pytest.param(
            None, [RunsRead(("a",), (SOON,))], LATER,
            [DISPATCHED, RaiseWatermarks({"default": FIRST_SEQ}, FIRST_SEQ)],
            id="a run that is read when it is due is dispatched in the same pass",
        ),
        pytest.param(
            SOON, [inbox(CancelRun("a"))], LATER, [ReadRuns(("a",))],
            id="a run whose cancel arrives as it falls due is read, not dispatched",
        ),
        pytest.param(MUCH_LATER, [inbox(CancelRun("a"))], LATER, [ReadRuns(("a",))], id="a cancel is read first"),
        pytest.param(
            None, [inbox(RunEnqueued(("b", "c")))], LATER, [ReadRuns(("b", "c"))], id="what others enqueued is read"
        ),
        pytest.param(
            PENDING, [inbox(Started("a", 1, "w", NOW, FIRST_SEQ))], LATER,
            [applied(Transition("a", 1, Event.START, RunState.RUNNING, LATER, started_at=NOW, worker="w"))],
            id="a start is written with the position of its report",
        ),
        pytest.param(
            RUNNING, [inbox(Succeeded("a", 1, "w", LATER, NOW, 7))], LATER,
            [applied(ended(Event.SUCCEED, RunState.COMPLETED, result=7))],
            id="an end is written with its result",
        ),
        pytest.param(
            PENDING, [inbox(Started("a", 1, "w", NOW, FIRST_SEQ), Succeeded("a", 1, "w", LATER, NOW, 7))], LATER,
            [applied(ended(Event.SUCCEED, RunState.COMPLETED, result=7))],
            id="a start and an end that are read together are one transition",
        ),
        pytest.param(
            RUNNING, [inbox(Failed("a", 1, "w", LATER, NOW, ERROR))], LATER,
            [applied(ended(Event.FAIL, RunState.FAILED, error=ERROR))],
            id="the last attempt fails",
        ),
        pytest.param(
            None, [inbox(Succeeded("b", 1, "w", LATER, NOW, 7))], LATER,
            [applied(late=(LateReport("b", 1, "succeeded", LATER, "w", None),))],
            id="a report of a run that is not in memory is kept",
        ),
        pytest.param(
            RUNNING, [inbox(Succeeded("a", 2, "w", LATER, NOW, 7))], LATER,
            [applied(late=(LateReport("a", 2, "succeeded", LATER, "w", None),))],
            id="a report of another attempt ends nothing",
        ),
    ],
)  # fmt: skip
def test_a_leader_commands_exactly_this(
    run: ActiveRun | None, messages: Sequence[Feedback], at: Instant, commands: list[Command]
) -> None:
    _, found = iterate(led(*([run] if run else [])), messages, at)
    assert found == commands


def test_what_the_database_set_pending_is_published_and_nothing_else() -> None:
    state, _ = iterate(led(SOON), [], LATER)
    _, commands = iterate(state, [RunsDispatched((SENT,), ())], LATER)
    assert commands == [Publish((SENT,))]
    state, _ = iterate(led(SOON), [], LATER)
    _, commands = iterate(state, [RunsDispatched((), ("a",))], LATER)
    assert commands == [ReadRuns(("a",))], "refused: somebody else has changed the row"
