"""Counting by cells: the same as stepping each job, and stopped in time where there is too much."""

from itinerary.protocol.instants import DAY, HOUR, MINUTE, parse_instant
from scheduler_service.core.index.cell_counts import CellCount, Planned, cell_counts
from scheduler_service.core.schedules.schedule import Schedule, occurrences, parse_schedule

BEGIN = parse_instant("2026-10-24T22:00:00Z")  # Berlin's day of 25 hours
FOREVER = 2**62


def schedule(spec: dict[str, str]) -> Schedule:
    return parse_schedule(spec, job_id="job", created_at=BEGIN - DAY).schedule


MINUTELY = schedule({"kind": "cron", "expr": "* * * * *", "timezone": "UTC"})
NIGHTLY = schedule({"kind": "cron", "expr": "30 2 * * *", "timezone": "Europe/Berlin"})
HALVES = schedule({"kind": "interval", "every": "30s", "anchor": "2026-01-01T00:00:00Z"})


def test_each_cell_has_the_runs_that_stepping_finds() -> None:
    edges = [BEGIN, BEGIN + 25 * HOUR, BEGIN + 49 * HOUR]
    planned = [Planned(f"job-{n}", one, 0, FOREVER) for n, one in enumerate((MINUTELY, NIGHTLY, HALVES, MINUTELY))]
    found = cell_counts(planned, edges, 0)
    for cell, end in zip(found, edges[1:], strict=True):
        assert cell.runs == sum(len(occurrences(one.schedule, cell.start, end)) for one in planned)
    assert found[0].busiest == (("job-2", 25 * 120), ("job-0", 25 * 60), ("job-3", 25 * 60))
    assert [cell.jobs for cell in found] == [4, 4]


def test_bounds_of_a_job_hold_to_the_instant() -> None:
    edges = [BEGIN, BEGIN + HOUR, BEGIN + 2 * HOUR]
    planned = [Planned("a", MINUTELY, BEGIN + 30 * MINUTE, BEGIN + 61 * MINUTE), Planned("over", MINUTELY, 0, BEGIN)]
    first, second = cell_counts(planned, edges, 0)
    assert (first.runs, second.runs, first.jobs) == (30, 1, 1)
    assert [cell.runs for cell in cell_counts(planned, edges, BEGIN + 59 * MINUTE)] == [1, 1]
    assert cell_counts([], edges, 0) == [CellCount(edges[0], 0, 0, ()), CellCount(edges[1], 0, 0, ())]


def test_a_count_that_may_not_go_on_keeps_its_whole_cells() -> None:
    edges = [BEGIN + n * HOUR for n in range(10)]
    answers = iter([True] * 3 + [False] * 9)
    found = cell_counts([Planned("a", MINUTELY, 0, FOREVER)], edges, 0, lambda: next(answers))
    assert [cell.runs for cell in found] == [60] * 3
