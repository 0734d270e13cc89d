"""Starts of rates: committed with what starts, read by a takeover, pruned when they count no longer."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event, select

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.leader.commands import Apply, CreateRuns, Transition
from scheduler_service.core.leader.past_starts import PastStarts, StartsPruned, StoredStarts
from scheduler_service.core.model import Lease
from scheduler_service.core.run_state import RunState
from scheduler_service.sql.control_tables import limit_starts
from scheduler_service.sql.leader import starts as starts_rows
from tests.contract.test_store_apply import fail, start, succeed
from tests.contract.test_store_lost_reply import lost_reply
from tests.support.store_bed import StoreBed, one_off

API, ACME, UMLAUT = LimitUse("api"), LimitUse("tenant", "acme"), LimitUse("tenant", "ü 'x'")
ALL = dict.fromkeys(("api", "tenant", "gone", "a", "b", "c", "before", "since"), DAY)


def read(bed: StoreBed) -> tuple[PastStarts, ...]:
    return bed.leader.starts(ALL).counting


def stored(bed: StoreBed) -> Counter[LimitUse]:
    found: Counter[LimitUse] = Counter()
    for past in read(bed):
        assert 0 <= past.age < MINUTE
        found[past.use] += past.count
    return found


def pending(bed: StoreBed, lease: Lease, number: int) -> list[str]:
    return [run.run_id for run in bed.dispatched(lease, *(one_off(lease.now) for _ in range(number)))]


def test_a_start_is_stored_for_each_limit_that_counts_it_one_row_for_all_of_an_apply(bed: StoreBed) -> None:
    lease = bed.lead()
    a, b, c, d = pending(bed, lease, 4)
    batch = (
        start(a, lease.now)._replace(starts=(API, ACME)),
        start(b, lease.now)._replace(starts=(API, UMLAUT)),
        succeed(c, lease.now)._replace(starts=(API,)),
        start(d, lease.now),
    )
    assert bed.leader.apply(lease, Apply(batch, position="7-0")) == ()
    assert stored(bed) == {API: 3, ACME: 1, UMLAUT: 1}
    assert len(read(bed)) == 3
    assert bed.leader.cursor(lease).inbox_position == "7-0"


def test_who_has_no_rates_writes_nothing(bed: StoreBed) -> None:
    lease = bed.lead()
    (run_id,) = pending(bed, lease, 1)
    bed.leader.apply(lease, Apply((start(run_id, lease.now), succeed(run_id, lease.now))))
    assert bed.leader.starts(ALL) == StoredStarts()


@pytest.mark.parametrize("event", [start, succeed, fail])
def test_applying_it_again_counts_no_start_twice(bed: StoreBed, event: Callable[..., Transition]) -> None:
    lease = bed.lead()
    (run_id,) = pending(bed, lease, 1)
    batch = Apply((event(run_id, lease.now)._replace(starts=(API,)),))
    assert bed.leader.apply(lease, batch) == ()
    assert bed.leader.apply(lease, batch) == (run_id,)
    assert stored(bed) == {API: 1}


def test_a_start_whose_reply_was_lost_is_stored_once(sql_stores: StoreBed, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = sql_stores.lead()
    (run_id,) = pending(sql_stores, lease, 1)
    batch = Apply((start(run_id, lease.now)._replace(starts=(API,)),))
    with lost_reply(sql_stores, monkeypatch):
        sql_stores.leader.apply(lease, batch)
    assert stored(sql_stores) == {API: 1}, "killed between the commit and its answer: the next leader reads it"
    sql_stores.leader.apply(lease, batch)
    assert stored(sql_stores) == {API: 1}


def test_a_retry_that_a_cancel_request_ended_counts_its_start(bed: StoreBed) -> None:
    lease = bed.lead()
    (run_id,) = pending(bed, lease, 1)
    bed.runs.request_cancel(run_id)
    batch = Apply((fail(run_id, lease.now)._replace(starts=(API,)),))
    assert bed.leader.apply(lease, batch) == (run_id,)
    assert bed.runs.get(run_id).state is RunState.CANCELLED
    bed.leader.apply(lease, batch)
    assert stored(bed) == {API: 1}


def test_a_row_that_the_database_refuses_keeps_no_start_out(bed: StoreBed) -> None:
    lease = bed.lead()
    a, b = pending(bed, lease, 2)
    broken = start(a, lease.now)._replace(starts=(API,), worker="worker-\x00")
    bed.leader.apply(lease, Apply((broken, start(b, lease.now)._replace(starts=(API,)))))
    assert stored(bed) == {API: 2}


def test_starts_of_two_applies_in_one_transaction_are_both_stored(bed: StoreBed) -> None:
    lease = bed.lead()
    a, b = pending(bed, lease, 2)
    with bed.leader.together(lease):
        bed.leader.create_runs(lease, CreateRuns((one_off(lease.now),), cursor=lease.now))
        bed.leader.apply(lease, Apply((start(a, lease.now)._replace(starts=(API,)),)))
        bed.leader.apply(lease, Apply((start(b, lease.now)._replace(starts=(API,)),)))
    assert stored(bed) == {API: 2}


def test_a_leader_of_the_past_stores_and_prunes_nothing(bed: StoreBed) -> None:
    lease = bed.lead()
    a, b = pending(bed, lease, 2)
    bed.leader.apply(lease, Apply((start(a, lease.now)._replace(starts=(API,)),)))
    bed.take_over(lease)
    with pytest.raises(LeaseLost):
        bed.leader.apply(lease, Apply((start(b, lease.now)._replace(starts=(API,)),)))
    with pytest.raises(LeaseLost):
        bed.leader.prune_starts(lease, {}, lease.now + HOUR)
    assert stored(bed) == {API: 1}


def test_a_prune_deletes_what_is_older_than_its_limit_keeps_it_and_what_no_limit_keeps(bed: StoreBed) -> None:
    lease = bed.lead()
    a, b, c = pending(bed, lease, 3)
    uses = (API, ACME, LimitUse("gone"))
    for run_id, use in zip((a, b, c), uses, strict=True):
        bed.leader.apply(lease, Apply((start(run_id, lease.now)._replace(starts=(use,)),)))
    assert bed.leader.prune_starts(lease, {"api": HOUR, "tenant": -HOUR}, lease.now + HOUR) == StartsPruned(
        full=False, left=True
    )
    assert stored(bed) == {API: 1}
    assert bed.leader.prune_starts(lease, {}, lease.now + HOUR) == StartsPruned(full=False, left=False)


def test_a_prune_is_bounded_and_says_that_there_is_more(sql_stores: StoreBed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed, lease = sql_stores, sql_stores.lead()
    monkeypatch.setattr(starts_rows, "MOST_PRUNED", 3)
    assert bed.database is not None
    with bed.database.write() as connection:
        for name, minutes in (("a", 4), ("a", 4), ("a", 3), ("a", 2), ("a", 1), ("b", 3), ("b", 0), ("c", 1)):
            at = lease.now - minutes * MINUTE
            connection.execute(limit_starts.insert().values(limit_name=name, limit_key="", at=at, count=1))
    kept = {"a": 90 * SECOND, "b": MINUTE}
    assert bed.leader.prune_starts(lease, kept, lease.now + HOUR).full
    assert len(read(bed)) == 5
    assert [bed.leader.prune_starts(lease, kept, lease.now + HOUR).full for _ in range(2)] == [True, False]
    assert sorted(past.use.name for past in read(bed)) == ["a", "b"]


def test_a_takeover_reads_many_old_starts_as_few_that_are_no_older(sql_stores: StoreBed) -> None:
    bed, lease = sql_stores, sql_stores.lead()
    assert bed.database is not None
    second = [{"limit_name": "api", "limit_key": "", "at": lease.now - at * SECOND // 50} for at in range(1, 51)]
    of_hours = [one | {"at": one["at"] - 2 * HOUR} for one in second]
    with bed.database.write() as connection:
        connection.execute(limit_starts.insert(), [one | {"count": 2} for one in (*second, *of_hours)])
    found = read(bed)
    recent, old = [[one for one in found if (one.age < HOUR) is is_recent] for is_recent in (True, False)]
    assert len(recent) == 50
    assert len(old) <= 2
    assert sum(one.count for one in recent) == sum(one.count for one in old) == 100
    assert all(one.age <= 2 * HOUR + SECOND + MINUTE for one in old)
    assert min(one.age for one in old) <= 2 * HOUR + SECOND // 50 + MINUTE


def test_a_prune_asks_once_which_limits_have_something_to_prune(sql_stores: StoreBed) -> None:
    bed, lease = sql_stores, sql_stores.lead()
    names = [f"limit{number}" for number in range(40)]
    database = bed.by_role["leader"]
    with database.write() as connection:
        rows = [{"limit_name": name, "limit_key": "", "at": lease.now, "count": 1} for name in names]
        connection.execute(limit_starts.insert(), [*rows, rows[0] | {"at": lease.now - HOUR}])
    asked: list[str] = []

    def note(*given: Any) -> None:
        asked.append(given[2])

    event.listen(database.engine, "before_cursor_execute", note)
    bed.leader.prune_starts(lease, dict.fromkeys(names, MINUTE), lease.now)
    event.remove(database.engine, "before_cursor_execute", note)
    of_starts = [statement for statement in asked if "limit_starts" in statement]
    assert len(of_starts) <= 3, of_starts
    assert len(bed.leader.starts(dict.fromkeys(names, MINUTE)).counting) == 40


def test_a_clock_that_stepped_ahead_of_the_leader_s_prunes_nothing(bed: StoreBed) -> None:
    lease = bed.lead()
    (run_id,) = pending(bed, lease, 1)
    bed.leader.apply(lease, Apply((start(run_id, lease.now)._replace(starts=(API,)),)))
    assert bed.leader.prune_starts(lease, {"api": -HOUR}, lease.now - 2 * HOUR).left
    assert stored(bed) == {API: 1}


def test_a_date_in_the_future_has_the_age_0(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    assert sql_stores.database is not None
    with sql_stores.database.write() as connection:
        later = {"limit_name": "api", "limit_key": "", "at": lease.now + HOUR, "count": 2}
        connection.execute(limit_starts.insert().values(later))
    (past,) = read(sql_stores)
    assert (past.use, past.age, past.count) == (API, 0, 2)


def test_what_was_stored_before_the_clock_stepped_ahead_is_dated_later(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    assert sql_stores.database is not None
    with sql_stores.database.write() as connection:
        for name, at in (("before", lease.now - HOUR - 5 * SECOND), ("since", lease.now - SECOND)):
            connection.execute(limit_starts.insert().values(limit_name=name, limit_key="", at=at, count=1))
    sql_stores.leader.shift_starts(lease, HOUR)
    ages = {past.use.name: past.age for past in read(sql_stores)}
    assert 5 * SECOND <= ages["before"] < 5 * SECOND + MINUTE
    assert 0 <= ages["since"] < SECOND + MINUTE


def test_a_step_of_the_clock_dates_nothing_later_that_no_window_counts(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    assert sql_stores.database is not None
    counts, over = lease.now - HOUR - DAY + MINUTE, lease.now - HOUR - DAY - MINUTE
    with sql_stores.database.write() as connection:
        rows = [{"limit_name": "api", "limit_key": "", "at": at, "count": 1} for at in (counts, over)]
        connection.execute(limit_starts.insert(), rows)
    sql_stores.leader.shift_starts(lease, HOUR)
    with sql_stores.database.read() as connection:
        stored = sorted(connection.execute(select(limit_starts.c.at)).scalars())
    assert stored == [over, counts + HOUR]


def test_a_takeover_reads_what_the_windows_still_count_and_hears_that_there_is_more(bed: StoreBed) -> None:
    lease = bed.lead()
    a, b, c = pending(bed, lease, 3)
    for run_id, use in zip((a, b, c), (API, ACME, LimitUse("gone")), strict=True):
        bed.leader.apply(lease, Apply((start(run_id, lease.now)._replace(starts=(use,)),)))
    found = bed.leader.starts({"api": HOUR, "tenant": -HOUR, "never": HOUR})
    assert ([past.use for past in found.counting], found.any) == ([API], True)
    assert bed.leader.starts({}) == StoredStarts(any=True), "the new leader prunes what is older"


def test_all_limits_are_read_a_part_at_a_time(sql_stores: StoreBed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts_rows, "_LIMITS_AT_ONCE", 2)
    lease, names = sql_stores.lead(), [f"limit{number}" for number in range(5)]
    assert sql_stores.database is not None
    with sql_stores.database.write() as connection:
        rows = [{"limit_name": name, "limit_key": "", "at": lease.now, "count": 1} for name in names]
        connection.execute(limit_starts.insert(), rows)
    found = sql_stores.leader.starts(dict.fromkeys(names, MINUTE)).counting
    assert sorted(past.use.name for past in found) == names
