"""Lists in other orders than their own: each run once, in the order asked for, however many there are."""

import re
from dataclasses import replace
from itertools import chain

import pytest
from sqlalchemy import text

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import MINUTE, SECOND, format_instant
from scheduler_service.core.leader.commands import Apply, Transition
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.ports.history import Total
from scheduler_service.ports.lists import BY_ID, JobFilter, JobSort, Order, RunFilter, RunSort
from scheduler_service.sql.paging import write_cursor
from tests.contract.test_store_plans import _NUMBERS, assert_never_scans, fill, plan_of
from tests.support.store_bed import StoreBed, a_job, occurrence, one_off, release

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


def jobs_with_last_runs(bed: StoreBed) -> None:
    """Jobs `a` to `e`: `a` and `b` of queue `slow`; `a` to `d` ran, `c` first and `a` last; `b` failed, `d` is on."""
    lease = bed.lead()
    for name in "abcde":
        bed.planned_job(lease, name, queue="slow" if name in "ab" else "default", task=f"pkg.{name}")
    order, now = "cdba", lease.now
    for place, name in enumerate(order):
        earlier, last = (occurrence(bed.jobs.get(name), now - n * SECOND) for n in (60 - place, 30 - place))
        made = bed.make(lease, earlier, last)
        bed.leader.dispatch_runs(lease, [release(run) for run in made], now)
        ends = {"b": (Event.FAIL, RunState.FAILED), "d": (Event.START, RunState.RUNNING)}
        event, state = ends.get(name, (Event.SUCCEED, RunState.COMPLETED))
        done = Transition(earlier.run_id, 1, Event.FAIL, RunState.FAILED, now)
        assert bed.leader.apply(lease, Apply((done, Transition(last.run_id, 1, event, state, now)))) == ()


def found_jobs(bed: StoreBed, wanted: JobFilter = JobFilter(), order: Order[JobSort] = BY_ID, at_once: int = 2) -> str:  # noqa: B008
    seen, cursor = "", None
    for _ in range(20):
        page = bed.jobs.list(wanted, at_once, cursor, order)
        assert len(page.items) <= at_once
        seen += "".join(job.job_id for job in page.items)
        if (cursor := page.next_cursor) is None:
            return seen
    raise AssertionError("no end")


def test_jobs_are_filtered_by_queue_task_and_the_state_of_their_last_run(bed: StoreBed) -> None:
    jobs_with_last_runs(bed)
    expected = {
        JobFilter(queue="slow"): "ab", JobFilter(task="pkg.c"): "c", JobFilter(queue="slow", task="pkg.c"): "",
        JobFilter(last_states=(RunState.FAILED,)): "b", JobFilter(last_states=(RunState.COMPLETED,)): "ac",
        JobFilter(last_states=(RunState.FAILED, RunState.RUNNING)): "bd", JobFilter(queue="pkg\x00"): "",
        JobFilter(queue="slow", last_states=(RunState.COMPLETED,)): "a",
    }  # fmt: skip
    for wanted, names in expected.items():
        assert found_jobs(bed, wanted) == names, wanted
        assert bed.history.count_jobs(wanted) == Total(len(names), False), wanted


def test_jobs_are_sorted_by_id_and_last_run_both_ways(own_stores: StoreBed, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs_with_last_runs(own_stores)
    expected = {
        JobSort.JOB_ID: ("abcde", "edcba"), JobSort.LAST_RUN: ("cdbae", "abdce"),
        JobSort.LAST_STATE: ("bdace", "cadbe"),
    }  # fmt: skip
    for sort, (up, down) in expected.items():
        assert found_jobs(own_stores, order=Order(sort)) == up
        assert found_jobs(own_stores, order=Order(sort, descending=True)) == down
    monkeypatch.setattr("scheduler_service.sql.job_lists.SCANNED", 2)
    assert found_jobs(own_stores, JobFilter(last_states=(RunState.RUNNING, RunState.COMPLETED)), at_once=1) == "acd"
    by_last = Order(JobSort.LAST_RUN)
    assert found_jobs(own_stores, JobFilter(queue="slow"), by_last) == "ba"
    with pytest.raises(BadValue, match="narrow the list") as refused:
        own_stores.jobs.list(JobFilter(), 2, None, by_last)
    assert refused.value.field == "sort"
    other = own_stores.jobs.list(JobFilter(queue="slow"), 1, None, by_last).next_cursor
    with pytest.raises(BadValue, match="next_cursor"):
        own_stores.jobs.list(JobFilter(queue="slow"), 1, other, Order(JobSort.LAST_STATE))


def test_jobs_are_sorted_by_their_next_run_as_of_the_first_page(
    own_stores: StoreBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = own_stores.lead()
    every = {"a": 60, "b": 7, "c": 5, "d": 30}
    for name, minutes in every.items():
        own_stores.planned_job(
            lease, name, schedule={"kind": "once", "at": format_instant(lease.now + minutes * MINUTE)}
        )
    own_stores.planned_job(lease, "e")
    own_stores.jobs.set_paused("e", True, None, None)
    assert found_jobs(own_stores, order=Order(JobSort.NEXT_RUN)) == "cbdae"
    assert found_jobs(own_stores, order=Order(JobSort.NEXT_RUN, descending=True)) == "adbce"
    monkeypatch.setattr("scheduler_service.sql.jobs_by_next_run.SORTED", 3)
    with pytest.raises(BadValue, match="more than 3 match"):
        own_stores.jobs.list(JobFilter(), 2, None, Order(JobSort.NEXT_RUN))


@pytest.mark.slow
def test_jobs_are_found_by_their_indexes_among_many(own_stores: StoreBed) -> None:
    assert own_stores.database is not None
    own_stores.jobs.create(a_job("job-name", task="pkg.one", queue="one"))
    columns = "definition, tags, search_text, paused, version, planned_version, effective_from, created_at"
    columns += ", updated_at, deleted"
    numbered = _NUMBERS[own_stores.kind].format(first=1, last=12_000)
    as_text = "replace(replace(CAST(definition AS text), '\"one\"', '\"many\"'), 'pkg.one', 'pkg.many')"
    values = columns.replace("definition", f"CAST({as_text} AS json)" if own_stores.kind == "postgresql" else as_text)
    with own_stores.database.write() as connection:
        connection.execute(
            text(f"INSERT INTO jobs (job_id, {columns}) SELECT 'job' || n, {values} FROM jobs, {numbered}")
        )
        connection.execute(text("ANALYZE"))
    if own_stores.kind == "postgresql":
        with own_stores.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM jobs"))
    fill(own_stores, finished=5_000, future=0)
    asked = {
        "ix_jobs_queue": (JobFilter(queue="one"), BY_ID), "ix_jobs_task": (JobFilter(task="pkg.one"), BY_ID),
        "ix_runs_of_job": (JobFilter(queue="one"), Order(JobSort.LAST_STATE, descending=True)),
        " ix_runs_of_job": (JobFilter(last_states=(RunState.COMPLETED,)), BY_ID),
    }  # fmt: skip
    for index, (wanted, order) in asked.items():
        plan = plan_of(own_stores, lambda w=wanted, o=order: own_stores.jobs.list(w, 50, None, o))
        assert index.strip() in plan, f"{wanted}:\n{plan}"
        assert_never_scans(plan, "runs")
    for name, wanted in {"queue": JobFilter(queue="one"), "task": JobFilter(task="pkg.one")}.items():
        assert own_stores.history.count_jobs(wanted) == Total(1, False)
        plan = plan_of(own_stores, lambda w=wanted: own_stores.history.count_jobs(w))  # type: ignore[misc]
        assert re.search(f"(Index Only Scan|SEARCH).*ix_jobs_{name}", plan), plan
    for sort in (JobSort.LAST_RUN, JobSort.LAST_STATE, JobSort.NEXT_RUN):
        with pytest.raises(BadValue, match="narrow the list"):
            own_stores.jobs.list(JobFilter(queue="many"), 50, None, Order(sort))


def test_definitions_of_a_page_that_are_alike_are_read_once(sql_stores: StoreBed) -> None:
    for name in "ab":
        sql_stores.jobs.create(a_job(f"alike-{name}", title=name, args=[name], task="pkg.task_of_both"))
    first, second = sql_stores.jobs.list(JobFilter(), 5, None).items
    assert [(job.job_id, job.title, job.args) for job in (first, second)] == [
        ("alike-a", "a", ["a"]), ("alike-b", "b", ["b"]),
    ]  # fmt: skip
    assert first.task is second.task, "the text of a definition of its own"
