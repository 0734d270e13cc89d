"""An index made by following changes of jobs is the one that is made from nothing."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Instant, parse_instant
from scheduler_service.core.index.job_table import JobTable
from scheduler_service.core.leader.commands import BuildIndex
from scheduler_service.core.leader.rebuilding import IndexBuilder
from scheduler_service.core.leader.results import IndexBuilt
from scheduler_service.core.model import Job, JobHistory
from scheduler_service.core.schedules.schedule import count
from scheduler_service.core.versions import spans
from tests.support.examples import examples
from tests.support.store_bed import a_job

# Half an hour before clocks are put forward in Berlin.
T0 = parse_instant("2027-03-28T00:30:00Z")
MADE = T0 - DAY
SPECS = [
    {"kind": "cron", "expr": "*/7 * * * *"},
    {"kind": "cron", "expr": "30 2 * * *", "timezone": "Europe/Berlin"},
    {"kind": "cron", "expr": "30 2 * * *", "timezone": "Europe/Berlin", "dst_gap": "shift"},
    {"kind": "cron", "expr": "* * * * * 10,40", "timezone": "America/New_York"},
    {"kind": "cron", "expr": "*/20 * L * *"},
    {"kind": "hourly", "minute": 17},
    {"kind": "calendar", "every": 1, "unit": "day", "at": ["00:45", "01:10:30", "03:00"], "timezone": "Europe/Berlin"},
    {"kind": "interval", "every": "11m"},
    {"kind": "interval", "every": "90s", "offset": "5s"},
    {"kind": "once", "at": "2027-03-28T01:40:00Z"},
]
SCHEDULES = [a_job("a", schedule=spec).schedule for spec in SPECS]


def version(dice: Random, job_id: str, number: int, since: Instant) -> Job:
    """A version of a job, now and then paused, bounded or deleted."""
    job = replace(a_job(job_id), schedule=dice.choice(SCHEDULES), version=number, effective_from=since)
    match dice.randrange(12):
        case 0:
            return replace(job, paused=True, paused_until=dice.choice((None, since + HOUR)))
        case 1:
            return replace(job, start_at=since + 20 * MINUTE, end_at=since + 2 * HOUR)
        case 2:
            return replace(job, deleted=True)
        case _:
            return job


def history(dice: Random, job_id: str, now: Instant) -> JobHistory:
    """One to three versions, the last of which may hold from a coming instant only; or one that cannot be used."""
    if dice.random() < 0.05:
        return JobHistory((replace(a_job(job_id), schedule=None, effective_from=MADE),), 1)  # type: ignore[arg-type]
    instants = sorted(dice.choice((MADE, now - HOUR, now, now + 9 * MINUTE)) for _ in range(dice.choice((1, 1, 2, 3))))
    return JobHistory(tuple(version(dice, job_id, n, at) for n, at in enumerate(instants, 1)), len(instants))


def lives(dice: Random, steps: int) -> Iterator[tuple[tuple[JobHistory, ...], Instant]]:
    """The jobs at a few instants, few of them changed, come, gone or back again from one to the next."""
    jobs, now = {f"job{n}": history(dice, f"job{n}", T0) for n in dice.sample(range(90), dice.randrange(45))}, T0
    for _ in range(steps):
        yield tuple(jobs.values()), now
        now += dice.choice((0, MINUTE, 10 * MINUTE, -SECOND))
        for _ in range(dice.choice((0, 1, 1, 3, 9))):
            job_id = f"job{dice.randrange(90)}"
            if dice.random() < 0.3:
                jobs.pop(job_id, None)
            if dice.random() < 0.8:
                jobs[job_id] = history(dice, job_id, now)


def told(built: IndexBuilt) -> object:
    """All that is in an index."""
    found = built.snapshot
    return list(found.job_ids), found.times.tolist(), found.ordinals.tolist(), found.failures, built.missed


def missed_by_each(order: BuildIndex) -> list[tuple[str, int, Instant, Instant, int]]:
    """What each job by itself owes."""
    return [
        (job.job_id, job.version, start, end, number)
        for history in order.jobs
        for job, start, end in spans(history, order.cursor, order.now)
        if job.schedule is not None and (number := count(job.schedule, start, end))
    ]


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**48))
def test_an_index_that_follows_changes_is_the_one_made_from_nothing(seed: int) -> None:
    dice, kept = Random(seed), IndexBuilder()
    for jobs, now in lives(dice, 6):
        order = BuildIndex(jobs, now - dice.choice((0, 0, HOUR)), now, now + HOUR, 1)
        built = kept.build(order)
        assert told(built) == told(IndexBuilder().build(order))
        assert [(o.job_id, o.version, o.start, o.end, o.count) for o in built.missed] == missed_by_each(order)
        assert all(len(o.newest) == min(o.count, 100) for o in built.missed)


def test_a_change_is_read_by_itself_until_all_are_read_anew() -> None:
    # Two jobs of one schedule share a row; a job that is read by itself brings a row of its own.
    jobs = [JobHistory((replace(a_job(f"job{n}"), schedule=SCHEDULES[0], effective_from=MADE),), 1) for n in range(9)]
    table, rows = JobTable(), []
    for planned in range(20):
        jobs[4] = replace(jobs[4], planned_version=planned)
        table.follow(tuple(jobs), T0)
        rows.append(table.table.rows.hours.size)
    assert rows == [*range(1, 10), *range(1, 10), 1, 2]
