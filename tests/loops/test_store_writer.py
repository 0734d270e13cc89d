"""What is queued while the database is busy goes out in fewer transactions, and in an order that means the same."""

import queue
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from itinerary.protocol.errors import LeaseLost, RowRefused, StatementTimedOut, StoreUnavailable
from itinerary.protocol.instants import SECOND
from scheduler_service.core.balancing.placements import ReadRebalance, RebalanceAsked
from scheduler_service.core.leader.commands import (
    Apply,
    CreateRuns,
    Dispatch,
    DispatchRuns,
    ReadRuns,
    Redispatch,
    Retract,
    StoreCommand,
    Transition,
)
from scheduler_service.core.leader.poll_state import CancelsRead, ReadCancels
from scheduler_service.core.leader.results import Applied, RunsDispatched, RunsRedispatched
from scheduler_service.core.model import Lease, MissedRange, NewRun, RunKind
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.loops.mailbox import Mailbox, monotonic
from scheduler_service.loops.store_writer import StoreWriter
from scheduler_service.loops.write_groups import grouped, in_growing_parts, merged
from scheduler_service.ports.stores import Dispatched
from tests.support.fake_leader import FakeLeaderStore
from tests.support.fake_store import FakeStore
from tests.support.processes import PATIENCE, wait_until


def move(*run_ids: str) -> DispatchRuns:
    return DispatchRuns(tuple(Dispatch(run_id, 1, 7) for run_id in run_ids))


def apply(*run_ids: str, position: str | None = None, judged_until: int | None = None) -> Apply:
    done = tuple(Transition(run_id, 1, Event.SUCCEED, RunState.COMPLETED, 5) for run_id in run_ids)
    return Apply(done, position=position, judged_until=judged_until)


def created_rows(*run_ids: str) -> CreateRuns:
    return CreateRuns(tuple(NewRun(run_id, RunKind.OCCURRENCE, "pkg.task", 1, 1, "job", 1) for run_id in run_ids), 9)


def test_a_dispatch_that_was_chosen_before_a_freeze_begins_moves_nothing_after_it() -> None:
    now = [100]
    store = FakeStore(lambda: now[0])
    lease = store.leases.acquire(0, "leader", 1_000_000)
    assert lease is not None
    store.runs.enqueue([NewRun("a", RunKind.ADHOC, "pkg.task", 50, 50), NewRun("b", RunKind.ADHOC, "pkg.task", 50, 50)])
    mailbox = Mailbox()
    renewer = LeaseRenewer(store.leases, lease, 100, 1_000_000, lambda: None, clock=lambda: now[0])
    writer = StoreWriter(store.leader, renewer, mailbox, threading.Event(), lambda _: None)
    writer.dispatch([DispatchRuns((Dispatch("a", 1, 7),), until=200)])
    now[0] = 200
    writer.dispatch([DispatchRuns((Dispatch("b", 1, 8),), until=200)])
    first, second = (answer for answer in mailbox.drain(0) if isinstance(answer, RunsDispatched))
    assert ([run.run_id for run in first.dispatched], first.outdated) == (["a"], False)
    assert (second.dispatched, second.refused, second.outdated) == ((), ("b",), True)


class Away:
    """A database that does not answer; `asked` counts."""

    asked = 0

    def apply(self, *_: object) -> tuple[str, ...]:
        self.asked += 1
        raise StoreUnavailable("away")


def test_a_database_that_is_away_is_asked_with_growing_pauses_by_a_leader_that_stops_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, away = [0], Away()
    leases = FakeStore(lambda: 1).leases
    renewer = LeaseRenewer(leases, Lease(0, 1, "a", 1), 0, SECOND // 2, lambda: None, clock=lambda: now[0])
    stopping = threading.Event()
    stopping.set()
    paused = lambda seconds: now.append(now.pop() + int(seconds * SECOND))  # noqa: E731
    monkeypatch.setattr("scheduler_service.loops.store_writer.time.sleep", paused)
    syncer = StoreWriter(away, renewer, Mailbox(), stopping, print)  # type: ignore[arg-type]
    with pytest.raises(LeaseLost):
        syncer.carry_out([apply("x")])
    assert 1 < away.asked < 6


class TooSlow(Away):
    """A database that ends each of these at its time limit."""

    def last_rebalance(self) -> None:
        self.asked += 1
        raise StatementTimedOut("canceling statement due to statement timeout")

    def create_runs(self, *_: object) -> tuple[str, ...]:
        raise StatementTimedOut("canceling statement due to statement timeout")


def _store_writer(store: object, ttl: int = 60 * SECOND) -> tuple[StoreWriter, threading.Event]:
    renewer = LeaseRenewer(FakeStore(lambda: 1).leases, Lease(0, 1, "a", 1), monotonic(), ttl, lambda: None)
    stopping = threading.Event()
    return StoreWriter(store, renewer, Mailbox(), stopping, print), stopping  # type: ignore[arg-type]


def test_a_read_that_the_database_ends_each_time_keeps_no_write_behind_it_waiting() -> None:
    slow = TooSlow()
    syncer, _ = _store_writer(slow)
    asked = RebalanceAsked("undo", "reply", "plan", known_plan=True, actor="me", role="operator")
    with capture_logs() as logs:
        syncer.carry_out([ReadRebalance(asked)])
    assert slow.asked == 1
    assert [entry["log_level"] for entry in logs] == ["error"]


@pytest.mark.slow
def test_a_write_that_the_database_ends_each_time_is_told_and_seen_to_stand_still() -> None:
    syncer, stopping = _store_writer(TooSlow(), SECOND)
    assert syncer.stuck_for() == 0
    seen: list[int] = []
    stopping.wait = lambda timeout=None: bool(seen.append(syncer.stuck_for()))  # type: ignore[method-assign]
    with capture_logs() as logs, pytest.raises(LeaseLost):
        syncer.carry_out([created_rows("a")])
    assert seen == sorted(seen)
    assert seen[-1] > 0
    assert syncer.stuck_for() == 0
    assert {entry["log_level"] for entry in logs} == {"error"}


class Refusing(FakeLeaderStore):
    """A database that never takes what a run is written by."""

    def dispatch_runs(self, *_: object, **__: object) -> Dispatched:
        raise RowRefused("no such row")

    def redispatch_runs(self, *_: object) -> Dispatched:
        raise RowRefused("no such row")

    def apply(self, *_: object) -> tuple[str, ...]:
        raise RowRefused("no such row")


def test_what_the_database_never_takes_comes_back_as_refused_so_that_its_runs_are_read() -> None:
    store, mailbox = FakeStore(lambda: 100), Mailbox()
    lease = store.leases.acquire(0, "leader", 1_000_000)
    assert lease is not None
    renewer = LeaseRenewer(store.leases, lease, 100, 1_000_000, lambda: None, clock=lambda: 100)
    writer = StoreWriter(Refusing(store.tables), renewer, mailbox, threading.Event(), lambda _: None)
    end = Transition("c", 1, Event.SUCCEED, RunState.COMPLETED, 5)
    writer.dispatch([move("a")])
    writer.dispatch([Redispatch((Dispatch("b", 1, 7),), "floor")])
    writer.carry_out([Apply((end,), position="1-0")])
    writer.carry_out([Apply((end,), position="1-0", then=(move("d"),))])
    dispatched, redispatched, applied, *handed_over = mailbox.drain(0)
    assert dispatched == RunsDispatched((), ("a",))
    assert redispatched == RunsRedispatched((), ("b",), "floor")
    assert applied == Applied(Apply((end,)), ("c",)), "its position is not committed"
    assert handed_over == [RunsDispatched((), ("d",)), applied]


def test_what_takes_the_slot_of_an_end_is_dispatched_in_its_transaction_or_not_at_all() -> None:
    now = [100]
    store, mailbox = FakeStore(lambda: now[0]), Mailbox()
    lease = store.leases.acquire(0, "leader", 1_000_000)
    assert lease is not None
    store.runs.enqueue([NewRun(run_id, RunKind.ADHOC, "pkg.task", 50, 50) for run_id in "abcd"])
    renewer = LeaseRenewer(store.leases, lease, 100, 1_000_000, lambda: None, clock=lambda: now[0])
    writer = StoreWriter(store.leader, renewer, mailbox, threading.Event(), lambda _: None)
    writer.dispatch([move("a")])
    mailbox.drain(0)
    first = replace(apply("a"), then=(DispatchRuns((Dispatch("b", 1, 8),), until=200),))
    again = replace(apply("a"), then=(DispatchRuns((Dispatch("c", 1, 9),)),))
    writer.carry_out([first])
    writer.carry_out([again])
    now[0] = 200
    writer.carry_out([replace(apply("b"), then=(DispatchRuns((Dispatch("d", 1, 9),), until=200),))])
    b, done, c, refused, d, late = mailbox.drain(0)
    assert isinstance(b, RunsDispatched), "the loop hears of it before the slot is free"
    assert [run.run_id for run in b.dispatched] == ["b"]
    assert done == Applied(first, ())
    assert (c, refused) == (RunsDispatched((), ("c",)), Applied(again, ("a",)))
    assert d == RunsDispatched((), ("d",), outdated=True), "a freeze has begun since it was chosen"
    assert isinstance(late, Applied)
    assert late.refused == ()
    states = {run.run_id: run.state for run in store.leader.read_runs("abcd")}
    assert [states[run_id] for run_id in "abcd"] == [
        RunState.COMPLETED,
        RunState.COMPLETED,
        RunState.SCHEDULED,
        RunState.SCHEDULED,
    ]


def test_neighbouring_applies_become_one_and_a_read_stays_between_them() -> None:
    queued = [apply("x", position="1-1", judged_until=3), apply("y", position="2-1")]
    assert merged(queued) == [apply("x", "y", position="2-1", judged_until=3)]
    ends = [replace(one, then=(move(run_id),)) for one, run_id in zip(queued, "ab", strict=True)]
    assert merged(ends) == [
        replace(apply("x", "y", position="2-1", judged_until=3), then=(move("a"), move("b"))),
    ]
    read = ReadRuns(("a",))
    assert merged([*queued, read, apply("z")]) == [apply("x", "y", position="2-1", judged_until=3), read, apply("z")]


class Polled(FakeLeaderStore):
    """A database that notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def apply(self, _: Lease, batch: Apply) -> tuple[str, ...]:
        self.asked.append(batch.transitions[0].run_id)
        return ()

    def cancel_requests(self, *_: object) -> CancelsRead:
        self.asked.append("poll")
        return CancelsRead((), None)


def test_a_poll_lets_all_pass_that_comes_before_it_is_begun() -> None:
    database = Polled()
    writer, _ = _store_writer(database)
    writer.put(apply("later"))
    writer.carry_out([ReadCancels(10, None), apply("now")])
    assert database.asked == ["now"]
    writer.threads[0].start()
    wait_until(lambda: len(database.asked) == 3, what=lambda: str(database.asked))
    writer.threads[0].stop(60)
    assert database.asked == ["now", "later", "poll"]


def test_a_poll_is_not_put_off_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_service.loops.write_groups._POLLS_WITHIN", 0)
    database = Polled()
    writer, _ = _store_writer(database)
    writer.put(apply("later"))
    writer.carry_out([ReadCancels(10, None), apply("now")])
    assert database.asked == ["now", "poll"]


def test_a_transaction_stays_of_a_bearable_size() -> None:
    applies = [apply(*(f"{number}-{i}" for i in range(1_500))) for number in range(2)]
    assert merged([*applies]) == applies


def test_many_moves_begin_with_small_transactions_and_keep_their_order() -> None:
    moves = [move(*(f"{number}-{i}" for i in range(500))) for number in range(4)]
    parts = in_growing_parts(moves)
    assert [len(part.dispatches) for part in parts] == [250, 250, 500, 500, 500]
    assert [one for part in parts for one in part.dispatches] == [one for some in moves for one in some.dispatches]
    again = Redispatch((Dispatch("again", 1, 2),), "lost")
    assert in_growing_parts([move("a"), again, move("b"), move("c")]) == [move("a"), again, move("b", "c")]


class Slow:
    """A database in which `apply`, and the move of "slow", take as long as the test wants.

    `done` lists what was committed.
    """

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.dispatching, self.may_move = threading.Event(), threading.Event()
        self.done: queue.SimpleQueue[str] = queue.SimpleQueue()

    def together(self, _: Lease, *, by_controls: bool) -> AbstractContextManager[None]:
        assert by_controls, "what dispatches keeps edits out from its first statement on"
        return nullcontext()

    def apply(self, *_: object) -> tuple[str, ...]:
        self.begun.set()
        assert self.may_end.wait(60)
        self.done.put("applied")
        return ()

    def dispatch_runs(self, _: Lease, dispatches: tuple[Dispatch, ...], now: int, control: int) -> Dispatched:
        run_ids = ",".join(release.run_id for release in dispatches)
        if run_ids == "slow":
            self.dispatching.set()
            assert self.may_move.wait(60)
        self.done.put(run_ids)
        return Dispatched((), ())

    def redispatch_runs(self, _: Lease, dispatches: tuple[Dispatch, ...]) -> Dispatched:
        self.done.put("renewed " + ",".join(release.run_id for release in dispatches))
        return Dispatched((), ())


@pytest.fixture
def slow() -> Iterator[tuple[Slow, StoreWriter]]:
    leases, database = FakeStore(lambda: 1).leases, Slow()
    renewer = LeaseRenewer(leases, Lease(0, 1, "a", 1), monotonic(), 60 * SECOND, lambda: None)
    syncer = StoreWriter(database, renewer, Mailbox(), threading.Event(), print)  # type: ignore[arg-type]
    for thread in syncer.threads:
        thread.start()
    yield database, syncer
    database.may_end.set()
    database.may_move.set()
    for thread in syncer.threads:
        thread.stop(60)


def test_what_is_due_does_not_wait_for_a_long_write(slow: tuple[Slow, StoreWriter]) -> None:
    database, syncer = slow
    syncer.put(apply("x"))
    assert database.begun.wait(60)
    syncer.put(move("a"))
    assert database.done.get(timeout=60) == "a"
    database.may_end.set()
    assert database.done.get(timeout=60) == "applied"


def test_a_move_waits_for_the_write_that_concerns_it(slow: tuple[Slow, StoreWriter]) -> None:
    database, syncer = slow
    syncer.put(apply("x"))
    assert database.begun.wait(60)
    syncer.put(move("x"))
    syncer.put(move("a"))
    with pytest.raises(queue.Empty):
        database.done.get(timeout=0.3)
    database.may_end.set()
    assert database.done.get(timeout=60) == "applied"
    moved = database.done.get(timeout=60)  # both at once, if they were queued by then
    assert moved == "x,a" or (moved, database.done.get(timeout=60)) == ("x", "a")


def test_a_move_waits_for_an_earlier_one_of_its_queue_that_goes_with_an_end(slow: tuple[Slow, StoreWriter]) -> None:
    database, syncer = slow
    syncer.put(replace(apply("x"), then=(replace(move("next"), queue="q"),)))
    assert database.begun.wait(60)
    syncer.put(replace(move("a"), queue="q"))
    syncer.put(replace(move("other"), queue="p"))
    assert database.done.get(timeout=60) == "other"
    with pytest.raises(queue.Empty):
        database.done.get(timeout=0.1)
    database.may_end.set()
    assert [database.done.get(timeout=60) for _ in range(3)] == ["applied", "next", "a"]


def test_a_move_does_not_wait_for_what_a_later_one_waits_for(slow: tuple[Slow, StoreWriter]) -> None:
    database, syncer = slow
    syncer.put(apply("x"))
    assert database.begun.wait(60)
    syncer.put(move("slow"))
    assert database.dispatching.wait(60)
    for run_id in ("a", "x", "b"):
        syncer.put(move(run_id))
    database.may_move.set()
    assert [database.done.get(timeout=60) for _ in range(2)] == ["slow", "a"]
    database.may_end.set()
    assert database.done.get(timeout=60) == "applied"
    assert database.done.get(timeout=60) == "x,b"


def test_a_move_passes_one_of_another_queue_that_waits_for_a_write(slow: tuple[Slow, StoreWriter]) -> None:
    database, syncer = slow
    syncer.put(apply("x"), move("x"), replace(move("a"), queue="another"))
    assert database.begun.wait(60)
    assert database.done.get(timeout=60) == "a"
    wait_until(lambda: syncer.backlog() == 2, what="the writer to count it as done")
    database.may_end.set()
    assert [database.done.get(timeout=60) for _ in range(2)] == ["applied", "x"]


def test_where_a_database_has_one_writer_a_write_lets_the_moves_of_its_pass_go_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scheduler_service.loops.store_writer._GIVES_WAY", PATIENCE)
    database = Slow()
    renewer = LeaseRenewer(FakeStore(lambda: 1).leases, Lease(0, 1, "a", 1), monotonic(), 60 * SECOND, lambda: None)
    syncer = StoreWriter(database, renewer, Mailbox(), threading.Event(), print, gives_way=True)  # type: ignore[arg-type]
    database.may_move.set()
    database.may_end.set()
    syncer.put(apply("x"), move("slow"))
    writer, dispatcher = syncer.threads
    writer.start()
    assert not database.begun.wait(0.05)
    dispatcher.start()
    assert [database.done.get(timeout=60) for _ in range(2)] == ["slow", "applied"]
    for thread in syncer.threads:
        thread.stop(60)


def test_what_is_sent_again_is_sent_behind_the_moves_that_were_decided_before_it(
    slow: tuple[Slow, StoreWriter],
) -> None:
    # By a greater number at its queue's head, the first would look lost.
    database, syncer = slow
    syncer.put(move("slow"))
    assert database.dispatching.wait(60)
    syncer.put(Redispatch((Dispatch("again", 1, 2),), "unconfirmed"))
    syncer.put(move("a"))
    with pytest.raises(queue.Empty):
        database.done.get(timeout=0.3)
    database.may_move.set()
    assert [database.done.get(timeout=60) for _ in range(3)] == ["slow", "renewed again", "a"]


def test_what_is_sent_again_waits_for_no_write_that_does_not_concern_it(slow: tuple[Slow, StoreWriter]) -> None:
    database, syncer = slow
    syncer.put(apply("x"))
    assert database.begun.wait(60)
    syncer.put(Redispatch((Dispatch("again", 1, 2),), "unconfirmed"))
    syncer.put(move("a"))
    assert [database.done.get(timeout=60) for _ in range(2)] == ["renewed again", "a"]


def test_many_rows_of_neighbouring_writes_share_a_transaction_and_a_few_do_not() -> None:
    few: list[StoreCommand] = [apply("x"), created_rows("a", "b")]
    assert grouped(few) == [[few[0]], [few[1]]]
    many: list[StoreCommand] = [apply(*map(str, range(40))), created_rows(*map(str, range(40)))]
    read = ReadRuns(("a",))
    assert grouped([*many, read, *few]) == [many, [read], [few[0]], [few[1]]]


def test_writes_without_rows_are_grouped_with_their_neighbours_and_with_nothing_before_them() -> None:
    rows, nothing = created_rows(*map(str, range(60))), apply(judged_until=7)
    read = ReadRuns(("a",))
    assert grouped([nothing, rows]) == [[nothing, rows]]
    assert grouped([read, nothing, rows, read]) == [[read], [nothing, rows], [read]]


def test_what_is_made_and_folded_away_is_not_made_again_in_one_transaction() -> None:
    made = created_rows(*["job_1"] * 60)
    folded = Transition("job_1", 1, Event.SKIP, RunState.SKIPPED, 5, coalesce=MissedRange("job", 1, 2, 1, "overlap"))
    assert grouped([made, Apply((folded,))]) == [[made], [Apply((folded,))]]


def test_a_shared_transaction_stays_of_a_bearable_size() -> None:
    applies = [apply(*(f"{number}-{i}" for i in range(400))) for number in range(3)]
    assert grouped([*applies]) == [[applies[0], applies[1]], [applies[2]]]


def edit(job_id: str, version: int, rows: int = 1, cursor: int = 9) -> CreateRuns:
    runs = tuple(NewRun(f"{job_id}_{n}", RunKind.OCCURRENCE, "pkg.task", 1, 1, job_id, version) for n in range(rows))
    return CreateRuns(runs, cursor, (Retract(job_id, version, 5),), planned=((job_id, version),))


def test_neighbouring_edits_of_different_jobs_are_one() -> None:
    a, b, later = edit("a", 2), edit("b", 1, cursor=10), edit("a", 3)
    (both, *rest) = merged([a, b, later])
    assert rest == [later], "it takes back what the first one makes"
    assert both == CreateRuns(a.runs + b.runs, 10, a.retracts + b.retracts, planned=(("a", 2), ("b", 1)))
    assert merged([created_rows("x"), a]) == [created_rows("x"), a]
    assert merged([edit("a", 1), replace(edit("b", 1), set_back=True)]) != [edit("a", 1)]


def test_edits_that_are_not_one_share_no_transaction_since_jobs_are_locked_in_their_order() -> None:
    edits: list[StoreCommand] = [edit("b", 1, rows=600), edit("a", 1, rows=600)]
    assert grouped(merged(edits)) == [[one] for one in edits]
    again: list[StoreCommand] = [edit("b", 1, rows=60), edit("b", 2, rows=60)]
    assert grouped(merged(again)) == [[one] for one in again]
