"""What is queued while the database is busy goes out in fewer transactions, and in an order that means the same."""

import threading

import pytest

from scheduler_service.core.effects import (
    Apply,
    MakeRuns,
    MoveRuns,
    ReadRuns,
    RecordStatistics,
    Release,
    Transition,
)
from scheduler_service.core.errors import LeaseLost, StoreUnavailable
from scheduler_service.core.instants import SECOND
from scheduler_service.core.model import Gap, Lease, NewRun, RunKind
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.loops.lease_keeper import LeaseKeeper
from scheduler_service.loops.mailbox import Mailbox, monotonic
from scheduler_service.loops.store_syncer import StoreSyncer, grouped, merged
from tests.support.fake_store import FakeStore


def move(*run_ids: str) -> MoveRuns:
    return MoveRuns(tuple(Release(run_id, 1, 7) for run_id in run_ids))


def apply(*run_ids: str, position: str | None = None, judged_until: int | None = None) -> Apply:
    done = tuple(Transition(run_id, 1, Event.SUCCEED, RunState.COMPLETED, 5) for run_id in run_ids)
    return Apply(done, position=position, judged_until=judged_until)


class Away:
    """A database that does not answer; `asked` counts."""

    asked = 0

    def apply(self, *_: object) -> tuple[str, ...]:
        self.asked += 1
        raise StoreUnavailable("away")


def test_a_database_that_is_away_is_asked_with_growing_pauses_by_a_leader_that_stops_too() -> None:
    leases = FakeStore(lambda: 1).leases
    keeper = LeaseKeeper(leases, Lease(0, 1, "a", 1), monotonic(), SECOND // 2, lambda: None)
    stopping, away = threading.Event(), Away()
    stopping.set()
    syncer = StoreSyncer(away, keeper, Mailbox(), None, stopping, print)  # type: ignore[arg-type]
    with pytest.raises(LeaseLost):
        syncer.carry_out([apply("x")])
    assert 1 < away.asked < 6


def test_applies_and_moves_that_alternate_become_one_of_each_the_applies_first() -> None:
    queued = [move("a"), apply("x", position="1-1", judged_until=3), move("b"), apply("y", position="2-1")]
    assert merged(queued) == [apply("x", "y", position="2-1", judged_until=3), move("a", "b")]


def test_nothing_is_carried_past_a_read() -> None:
    read = ReadRuns(("a",))
    assert merged([move("a"), read, move("b"), apply("x")]) == [move("a"), read, apply("x"), move("b")]


def test_a_transaction_stays_of_a_bearable_size() -> None:
    moves = [move(*(f"{number}-{i}" for i in range(300))) for number in range(3)]
    applies = [apply(*(f"{number}-{i}" for i in range(1_500))) for number in range(2)]
    assert merged([*moves, *applies]) == [*applies, *moves]


def test_many_rows_of_neighbouring_writes_share_a_transaction_and_a_few_do_not() -> None:
    few = [apply("x"), move("a", "b")]
    assert grouped(few) == [[few[0]], [few[1]]]
    many = [apply(*map(str, range(40))), move(*map(str, range(40)))]
    read = ReadRuns(("a",))
    assert grouped([*many, read, *few]) == [many, [read], [few[0]], [few[1]]]


def test_writes_without_rows_are_grouped_with_their_neighbours_and_with_nothing_before_them() -> None:
    rows, nothing = move(*map(str, range(60))), apply(judged_until=7)
    statistics = RecordStatistics(1, 2, 3, 4)
    assert grouped([nothing, rows]) == [[nothing, rows]]
    assert grouped([statistics, nothing, rows, statistics]) == [[statistics], [nothing, rows], [statistics]]


def test_what_is_made_and_folded_away_is_not_made_again_in_one_transaction() -> None:
    run = NewRun("job_1", RunKind.OCCURRENCE, "pkg.task", 1, 1, "job", 1)
    made = MakeRuns((run,) * 60, cursor=9)
    folded = Transition("job_1", 1, Event.SKIP, RunState.SKIPPED, 5, fold=Gap("job", 1, 2, 1, "overlap"))
    assert grouped([made, Apply((folded,))]) == [[made], [Apply((folded,))]]


def test_a_shared_transaction_stays_of_a_bearable_size() -> None:
    applies = [apply(*(f"{number}-{i}" for i in range(400))) for number in range(3)]
    assert grouped([*applies]) == [[applies[0], applies[1]], [applies[2]]]


def test_moves_behind_moves_are_transactions_of_their_own() -> None:
    done, *moves = apply(*map(str, range(60))), *(move(*(f"{number}-{i}" for i in range(400))) for number in range(3))
    assert grouped([done, *moves]) == [[done, moves[0]], [moves[1]], [moves[2]]]
