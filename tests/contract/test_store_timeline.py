"""TimelineStore: runs of a time one by one or counted, the same on both databases, however many there are."""

import random
import re
from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest

from itinerary.protocol.instants import HOUR, MINUTE, SECOND
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.history import Total
from scheduler_service.ports.stores import RunFilter
from scheduler_service.ports.timeline import LaneKind, Span
from scheduler_service.sql import timeline
from scheduler_service.sql.database import Database
from scheduler_service.sql.run_pages import SqlHistoryStore
from scheduler_service.sql.runs import SqlRunStore
from scheduler_service.sql.timeline import SqlTimelineStore
from tests.contract.test_store_plans import assert_never_scans, plan_of
from tests.support.old_runs import keep, old_run
from tests.support.statements import noted
from tests.support.store_bed import StoreBed

NOW = 1_795_000_000 * SECOND
HOUR_BEFORE = Span(NOW - HOUR, NOW, 60)
NONE = RunFilter()


@pytest.fixture
def stored(sql_stores: StoreBed) -> tuple[StoreBed, SqlTimelineStore]:
    assert sql_stores.database is not None
    return sql_stores, SqlTimelineStore(sql_stores.by_role["api"])


def fill(bed: StoreBed, *rows: dict[str, object]) -> None:
    assert bed.database is not None
    keep(bed.database, *({"worker": None, "started_at": None, **row} for row in rows))


def test_a_run_lies_in_the_part_in_which_it_was_scheduled(stored: tuple[StoreBed, SqlTimelineStore]) -> None:
    bed, store = stored
    begin = HOUR_BEFORE.since
    times = (begin - 1, begin, begin + MINUTE - 1, begin + MINUTE, NOW - 1, NOW)
    fill(bed, *(old_run(at, run_id=f"r{n}", job_id="job") for n, at in enumerate(times)))
    counted = store.counts(LaneKind.JOB, HOUR_BEFORE, NONE, first=0, lanes=9)
    assert [(cell.part, cell.number) for cell in counted.cells] == [(0, 2), (1, 1), (59, 1)]
    assert (counted.lanes, counted.runs) == (1, 4)


def test_lanes_with_most_runs_come_first_and_the_rest_are_counted(stored: tuple[StoreBed, SqlTimelineStore]) -> None:
    bed, store = stored
    sizes = {"b": 3, "a": 3, "c": 5, None: 1}
    fill(bed, *(old_run(NOW - n * MINUTE, job_id=job, worker=job, queue=job or "q", state=state)
                for job, size in sizes.items() for n in range(1, size + 1)
                for state in [("completed", "failed")[n % 2]]))  # fmt: skip
    first = store.counts(LaneKind.JOB, HOUR_BEFORE, NONE, first=0, lanes=2)
    assert list(dict.fromkeys(cell.lane for cell in first.cells)) == ["c", "a"]
    assert (first.lanes, first.runs) == (4, 12)
    rest = store.counts(LaneKind.WORKER, HOUR_BEFORE, NONE, first=2, lanes=2)
    assert list(dict.fromkeys(cell.lane for cell in rest.cells)) == ["b", None]
    failed = store.counts(LaneKind.QUEUE, HOUR_BEFORE, RunFilter(states=(RunState.FAILED,)), first=0, lanes=9)
    assert ({cell.state for cell in failed.cells}, failed.runs) == ({RunState.FAILED}, 3 + 2 + 2 + 1)
    of_one = store.counts(LaneKind.TASK, HOUR_BEFORE, RunFilter(job_id="c", queue="c"), first=0, lanes=9)
    assert (of_one.lanes, of_one.runs) == (1, 5)


def test_few_runs_come_one_by_one_with_those_that_ran_into_the_time(stored: tuple[StoreBed, SqlTimelineStore]) -> None:
    bed, store = stored
    begin = HOUR_BEFORE.since
    early = begin - 2 * HOUR
    fill(
        bed,
        old_run(begin + MINUTE, run_id="within", started_at=begin + MINUTE, worker="w"),
        old_run(early, run_id="into", started_at=early, finished_at=begin + 1),
        old_run(early, run_id="over", started_at=early, finished_at=begin),
        old_run(early, run_id="runs-still", started_at=early, finished_at=None, state="running"),
        old_run(early, run_id="never-started", finished_at=begin + 1, state="missed"),
    )
    found = store.few(LaneKind.WORKER, HOUR_BEFORE, NONE, 10)
    assert found is not None
    assert sorted((run.run_id, run.lane) for run in found) == [("into", None), ("runs-still", None), ("within", "w")]
    assert store.few(LaneKind.WORKER, HOUR_BEFORE, RunFilter(states=(RunState.MISSED,)), 10) == []
    fill(bed, old_run(begin + MINUTE))
    assert store.few(LaneKind.JOB, HOUR_BEFORE, NONE, 1) is None


def test_a_time_with_too_many_runs_is_sampled(
    stored: tuple[StoreBed, SqlTimelineStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    bed, store = stored
    monkeypatch.setattr(timeline, "MOST_COUNTED", 10)
    monkeypatch.setattr(timeline, "OF_A_PIECE", 200)
    monkeypatch.setattr(timeline, "_PIECES", 3)
    thirds = replace(HOUR_BEFORE, parts=3)
    fill(bed, *(old_run(NOW - 1 - n * SECOND, job_id=f"job-{n % 2}") for n in range(10)))
    assert store.size(thirds, NONE) == Total(10, False)
    fill(bed, old_run(NOW - 59 * MINUTE, state="failed"))
    assert store.size(thirds, NONE) == Total(11, False)
    fill(bed, *(old_run(NOW - 1 - n * SECOND, job_id=f"job-{n % 2}") for n in range(390)))
    assert store.size(thirds, NONE) == Total(201, True)
    assert store.size(thirds, RunFilter(states=(RunState.FAILED,))) == Total(1, False)
    assert store.size(thirds, RunFilter(queue="other")) == Total(0, False)
    sampled = store.sample(LaneKind.JOB, thirds, NONE, 4, first=0, lanes=5)
    numbers = {lane: sum(cell.number for cell in sampled.cells if cell.lane == lane) for lane in ("job-0", "job-1")}
    assert all(60 <= number <= 140 for number in numbers.values()), numbers  # each of two hundred counts for four
    # The filter applies to what was read; it does not read on until enough match.
    assert store.sample(LaneKind.QUEUE, thirds, RunFilter(owner="me"), 4, first=0, lanes=5).runs == 0


def test_a_sample_has_runs_of_every_part_of_the_time(
    stored: tuple[StoreBed, SqlTimelineStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    bed, store = stored
    monkeypatch.setattr(timeline, "OF_A_PIECE", 1)
    hundredths = Span(NOW - 100 * SECOND, NOW, 100)
    fill(bed, *(old_run(NOW - n * SECOND // 2, job_id="job") for n in range(1, 201)))
    sampled = store.sample(LaneKind.JOB, hundredths, NONE, 1, first=0, lanes=5)
    assert [(cell.part, cell.number) for cell in sampled.cells] == [(part, 1) for part in range(100)]


def test_the_pieces_of_a_time_are_counted_in_one_statement(
    stored: tuple[StoreBed, SqlTimelineStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    bed, store = stored
    monkeypatch.setattr(timeline, "MOST_COUNTED", 10)
    fill(bed, *(old_run(NOW - 1 - n * SECOND) for n in range(11)))
    with noted(bed.by_role["api"].engine) as statements:
        assert store.size(HOUR_BEFORE, NONE) == Total(11, False)
    assert len([one for one in statements if "FROM runs" in one]) == 2


def test_a_sample_takes_neighbours_together(
    stored: tuple[StoreBed, SqlTimelineStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lie in one page of the table: a sample of single runs reads nearly as many pages as runs."""
    bed, store = stored
    fill(bed, *(old_run(NOW - HOUR + n * SECOND, job_id=f"job-{n:03}") for n in range(400)))
    sampled = store.sample(LaneKind.JOB, HOUR_BEFORE, NONE, 10, first=0, lanes=400)
    places = sorted(int(str(cell.lane)[4:]) for cell in sampled.cells)
    beside = [b - a == 1 for a, b in pairwise(places)]
    assert 20 <= len(places) <= 80
    assert sum(beside) >= len(places) / 2


def test_some_lanes_can_be_counted_alone(stored: tuple[StoreBed, SqlTimelineStore]) -> None:
    bed, store = stored
    fill(bed, *(old_run(NOW - MINUTE, job_id=job, state="failed") for job in ("a", "a", "b", None)))
    failed = RunFilter(states=(RunState.FAILED,))
    found = store.counts(LaneKind.JOB, HOUR_BEFORE, failed, first=0, lanes=9, among=("b", None))
    assert [(cell.lane, cell.number) for cell in found.cells] == [(None, 1), ("b", 1)]


def test_ends_of_a_job_are_those_that_its_runs_had(stored: tuple[StoreBed, SqlTimelineStore]) -> None:
    bed, store = stored
    dice, edges = random.Random(7), [NOW - 9 * HOUR, NOW - 8 * HOUR, NOW - 90 * MINUTE, NOW - MINUTE, NOW]
    times = [*edges, *(at - 1 for at in edges), *(dice.randrange(NOW - 10 * HOUR, NOW + HOUR) for _ in range(300))]
    rows = [old_run(at, job_id=dice.choice(("job", "job", "other")), state=dice.choice([*RunState])) for at in times]
    fill(bed, *rows)
    slowly = Counter((bisect_right(edges, row["scheduled_at"]) - 1, row["state"]) for row in rows
                     if row["job_id"] == "job")  # fmt: skip
    ended = (RunState.COMPLETED, RunState.FAILED, RunState.MISSED)
    assert store.ends("job", edges, 1_000) == ([tuple(slowly[n, state] for state in ended) for n in range(4)], None)
    assert store.ends("nobody", edges, 1_000) == ([(0, 0, 0)] * 4, None)
    assert store.ends("no\x00body", edges, 1_000) == ([(0, 0, 0)] * 4, None)


def test_of_a_job_with_too_many_runs_the_newest_are_counted(stored: tuple[StoreBed, SqlTimelineStore]) -> None:
    bed, store = stored
    fill(bed, *(old_run(NOW - n * MINUTE, job_id="job") for n in range(1, 61)))
    edges = [NOW - n * 10 * MINUTE for n in range(6, -1, -1)]
    assert [one.completed for one in store.ends("job", edges, 60).ends] == [10] * 6
    found = store.ends("job", edges, 25)
    assert [one.completed for one in found.ends] == [0, 0, 0, 5, 10, 10]
    assert found.since == NOW - 26 * MINUTE + 1


def _with_a_long_history(bed: StoreBed) -> Database:
    """20,000 runs, a second apart, of three jobs in three queues; one of 25 failed or was missed."""
    assert bed.database is not None
    states = ("failed", "missed", *["completed"] * 48)
    of = ({"job_id": f"job-{n % 3}", "queue": f"q-{n % 3}", "state": states[n % 50]} for n in range(20_000))
    fill(bed, *(old_run(NOW - n * SECOND, **fields) for n, fields in enumerate(of)))
    with bed.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE" if bed.kind == "sqlite" else "VACUUM ANALYZE runs")
    return bed.database


@pytest.mark.slow
def test_ends_of_a_job_are_counted_without_its_rows(stored: tuple[StoreBed, SqlTimelineStore]) -> None:
    bed, _ = stored
    database = _with_a_long_history(bed)
    edges = [NOW - n * HOUR for n in range(6, -1, -1)]
    plan = plan_of(bed, lambda: SqlTimelineStore(database).ends("job-1", edges, 5_000), "runs")
    assert_never_scans(plan, "runs")
    assert plan.count("ix_runs_of_job_otherwise") == 2
    assert len(re.findall(r"ix_runs_of_job\b", plan)) == 2, plan
    if bed.kind == "postgresql":
        assert plan.count("Index Only Scan") == 4, plan


def test_names_that_cannot_be_stored_have_no_runs(stored: tuple[StoreBed, SqlTimelineStore]) -> None:
    _, store = stored
    nobody = RunFilter(job_id="no\x00body")
    assert store.few(LaneKind.JOB, HOUR_BEFORE, nobody, 5) == []
    assert store.size(HOUR_BEFORE, nobody) == Total(0, False)
    assert store.sample(LaneKind.JOB, HOUR_BEFORE, nobody, 4, first=0, lanes=5).runs == 0
    assert store.counts(LaneKind.JOB, HOUR_BEFORE, nobody, first=0, lanes=5).runs == 0


@pytest.mark.slow
def test_runs_that_failed_are_read_in_the_order_of_their_index(stored: tuple[StoreBed, SqlTimelineStore]) -> None:
    """A condition that says nothing new would let PostgreSQL expect too few of them to use it."""
    bed, _ = stored
    database = _with_a_long_history(bed)
    failed, span = RunFilter(states=(RunState.FAILED,)), Span(NOW - 20_000 * SECOND, NOW + SECOND, 100)
    asked = {
        "list": lambda: SqlRunStore(database).list(failed, 50, None),
        "count": lambda: SqlHistoryStore(database).count_runs(failed),
        "timeline": lambda: SqlTimelineStore(database).few(LaneKind.JOB, span, failed, 50),
    }
    for name, call in asked.items():
        plan = plan_of(bed, call, "runs")
        assert "ix_runs_ended_otherwise" in plan, f"{name}:\n{plan}"
        assert not re.search("ix_runs_(standing|troubles|of_queue_otherwise)", plan), f"{name}:\n{plan}"
    for by in (LaneKind.JOB, LaneKind.QUEUE):
        counts = partial(SqlTimelineStore(database).counts, by, span, failed, first=0, lanes=5)
        plan = plan_of(bed, counts, "runs")
        assert re.search("(Index Only Scan|SEARCH).*ix_runs_ended_otherwise", plan), f"{by}:\n{plan}"


@pytest.mark.slow
def test_no_statement_scans_the_table(stored: tuple[StoreBed, SqlTimelineStore]) -> None:
    bed, _ = stored
    assert bed.database is not None
    store = SqlTimelineStore(bed.database)
    fill(bed, *(old_run(NOW - n * SECOND, job_id=f"job-{n % 9}", queue=f"q-{n % 3}") for n in range(20_000)))
    with bed.database.engine.begin() as connection:
        connection.exec_driver_sql("ANALYZE")
    filters = (NONE, RunFilter(job_id="job-1"), RunFilter(queue="q-1"), RunFilter(states=(RunState.FAILED,)),
               RunFilter(states=(RunState.RUNNING,)), RunFilter(queues=("q-1", "q-2"), owner="me"))  # fmt: skip
    for wanted in filters:
        plan = plan_of(bed, lambda wanted=wanted: _all_of(store, wanted), "runs")  # type: ignore[misc]
        assert_never_scans(plan, "runs")


def _all_of(store: SqlTimelineStore, wanted: RunFilter) -> None:
    span = Span(NOW - MINUTE, NOW, 10)
    store.size(span, wanted)
    store.few(LaneKind.JOB, span, wanted, 5)
    store.counts(LaneKind.JOB, span, wanted, first=0, lanes=5)
    store.sample(LaneKind.JOB, span, wanted, 4, first=0, lanes=5)
