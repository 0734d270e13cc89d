"""Lists in other orders than their own: each run once, in the order asked for, however many there are."""

from dataclasses import replace
from itertools import chain

import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import SECOND
from scheduler_service.core.leader.commands import Apply, Transition
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.ports.lists import Order, RunFilter, RunSort
from scheduler_service.sql.paging import write_cursor
from tests.contract.test_store_plans import assert_never_scans, fill, plan_of
from tests.support.store_bed import StoreBed, one_off, release

AT = 1_900_000_000 * SECOND
EVERY = [Order(sort, descending) for sort in RunSort for descending in (False, True)]


def all_runs(bed: StoreBed, wanted: RunFilter, order: Order[RunSort], at_once: int = 2) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor = None
    while True:
        page = bed.runs.list(wanted, at_once, cursor, order)
        assert len(page.items) <= at_once
        pages.append([run.run_id for run in page.items])
        assert len(pages) < 50
        if (cursor := page.next_cursor) is None:
            return pages


def some_runs(bed: StoreBed) -> dict[str, str]:
    """Their names by id: `a` to `d` ran, in an order of their own by each value; `e` and `f` never began."""
    lease = bed.lead()
    begins, takes = {"a": 3, "b": 1, "c": 4, "d": 2}, {"a": 5, "b": 7, "c": 1, "d": 3}
    made = bed.make(lease, *(replace(one_off(lease.now), scheduled_at=lease.now + n) for n in range(6)))
    names = dict(zip("abcdef", [run.run_id for run in made], strict=True))
    bed.leader.dispatch_runs(lease, [release(run) for run in made[:4]], lease.now)
    for name in "abcd":
        run_id, began = names[name], lease.now + begins[name] * SECOND
        ended = began + takes[name] * SECOND
        start = Transition(run_id, 1, Event.START, RunState.RUNNING, began)
        assert bed.leader.apply(lease, Apply((start,))) == ()
        end = Transition(run_id, 1, Event.SUCCEED, RunState.COMPLETED, ended)
        assert bed.leader.apply(lease, Apply((end,))) == ()
    return {run_id: name for name, run_id in names.items()}


def test_runs_are_sorted_by_each_value_both_ways_with_those_that_lack_it_last(bed: StoreBed) -> None:
    names = some_runs(bed)

    def found(sort: RunSort, descending: bool = False) -> str:
        pages = all_runs(bed, RunFilter(), Order(sort, descending))
        return "".join(names[run_id] for page in pages for run_id in page)

    assert (found(RunSort.SCHEDULED_AT), found(RunSort.SCHEDULED_AT, True)) == ("abcdef", "fedcba")
    assert (found(RunSort.STARTED_AT), found(RunSort.STARTED_AT, True)) == ("bdacef", "cadbfe")
    assert (found(RunSort.FINISHED_AT), found(RunSort.FINISHED_AT, True)) == ("cdabef", "badcfe")
    assert (found(RunSort.DURATION), found(RunSort.DURATION, True)) == ("cdabef", "badcfe")


@pytest.mark.parametrize("order", EVERY, ids=lambda order: order.text)
def test_pages_neither_repeat_nor_miss_a_run_while_others_are_enqueued(bed: StoreBed, order: Order[RunSort]) -> None:
    made = [one_off(AT + n % 4 * SECOND) for n in range(9)]
    bed.runs.enqueue(made)
    seen: list[str] = []
    cursor = None
    while True:
        page = bed.runs.list(RunFilter(), 2, cursor, order)
        seen += [run.run_id for run in page.items]
        if (cursor := page.next_cursor) is None:
            break
        bed.runs.enqueue([one_off(AT + 2 * SECOND)] if len(seen) < 6 else [])
    old = {run.run_id for run in made}
    assert sorted(run_id for run_id in seen if run_id in old) == sorted(old)
    assert len(set(seen)) == len(seen)


def test_of_more_than_a_page_may_read_the_newest_are_sorted_first(
    own_stores: StoreBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = some_runs(own_stores)  # two reads: c to f, and a to b
    monkeypatch.setattr("scheduler_service.sql.run_lists.SCANNED", 4)
    pages = all_runs(own_stores, RunFilter(), Order(RunSort.DURATION), 3)
    assert ["".join(names[run_id] for run_id in page) for page in pages] == ["cde", "f", "ab"]
    by_task = all_runs(own_stores, RunFilter(task="nobody.task"), Order(RunSort.DURATION), 3)
    assert [run_id for page in by_task for run_id in page] == []


def test_a_cursor_of_another_order_is_refused(bed: StoreBed) -> None:
    if bed.kind == "fake":
        pytest.skip("the fake keeps no order in its cursors")
    bed.runs.enqueue([one_off(AT + n) for n in range(4)])
    other = bed.runs.list(RunFilter(), 2, None, Order(RunSort.DURATION)).next_cursor
    for cursor in (other, write_cursor([AT, 1])):
        with pytest.raises(BadValue, match="next_cursor"):
            bed.runs.list(RunFilter(), 2, cursor, Order(RunSort.DURATION, descending=True))


def test_a_crowd_of_waiting_runs_is_walked_by_time_and_not_sorted_whole(
    own_stores: StoreBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [one_off(AT + n % 3 * SECOND, queue="crowd" if n % 2 else "few") for n in range(12)]
    own_stores.runs.enqueue(made)
    waiting = RunFilter(states=(RunState.SCHEDULED,))
    newest = Order(RunSort.SCHEDULED_AT, descending=True)
    oldest = Order(RunSort.SCHEDULED_AT)
    before = [all_runs(own_stores, wanted, newest, 3) for wanted in (waiting, replace(waiting, queue="crowd"))]
    assert sum(map(len, before[0])) == 12
    monkeypatch.setattr("scheduler_service.sql.run_lists.SCANNED", 5)
    after = [all_runs(own_stores, wanted, newest, 3) for wanted in (waiting, replace(waiting, queue="crowd"))]
    assert [list(chain(*pages)) for pages in after] == [list(chain(*pages)) for pages in before]
    with pytest.raises(BadValue, match="narrow by queue") as refused:
        own_stores.runs.list(waiting, 3, None, oldest)
    assert refused.value.field == "sort"


@pytest.mark.slow
def test_no_order_scans_or_sorts_a_long_history(own_stores: StoreBed) -> None:
    fill(own_stores, finished=30_000, future=12_000, out=500)
    filters = (
        RunFilter(), RunFilter(job_id="job7"), RunFilter(queue="queue1"), RunFilter(states=(RunState.FAILED,)),
        RunFilter(states=(RunState.SCHEDULED,)), RunFilter(states=(RunState.PENDING,)),
    )  # fmt: skip
    for order in EVERY:
        for wanted in filters:
            if wanted.states == (RunState.SCHEDULED,) and order == Order(RunSort.SCHEDULED_AT):
                continue  # refused, see above
            plan = plan_of(own_stores, lambda w=wanted, o=order: own_stores.runs.list(w, 50, None, o))
            assert "ix_runs_" in plan, f"{order.text} {wanted}:\n{plan}"
            assert_never_scans(plan, "runs")
