"""What is asked of calendars, their versions and the jobs that name them reads few of many rows."""

import pytest
from sqlalchemy import text

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import DAY, SECOND
from scheduler_service.core.contract.pruning import Past
from scheduler_service.core.leader.commands import CreateRuns
from scheduler_service.sql.pruning import SqlPruning
from tests.contract.test_store_plans import _NUMBERS, _execute, assert_never_scans, plan_of
from tests.support.store_bed import StoreBed

_TABLES = ("calendar_versions", "job_calendars")


@pytest.mark.slow
def test_versions_and_users_of_calendars_are_found_by_their_indexes(own_stores: StoreBed) -> None:
    bed, lease = own_stores, own_stores.lead()
    assert bed.database is not None
    many = _NUMBERS[bed.kind].format(first=1, last=50_000)
    at = {"sqlite": "{}", "postgresql": "TIMESTAMPTZ 'epoch' + {} * INTERVAL '1 microsecond'"}[bed.kind]
    began, ended = (
        at.format(f"({lease.now - 40 * DAY} + (n + {next_}) * CAST({60 * SECOND} AS BIGINT))") for next_ in (0, 1)
    )
    compiled = '{"timezone": "UTC", "days": [], "spans": [], "weekly": [], "known_until": null}'
    columns = "calendar_id, version, revision, definition, compiled, effective_from, ended_at, created_at, actor"
    row = f"'c' || (n / 5000), n % 5000, n, '{{}}', '{compiled}', {began}, {ended}, {began}, 'olga'"
    _execute(bed, f"INSERT INTO calendar_versions ({columns}) SELECT {row} FROM {many}")
    _execute(bed, f"INSERT INTO job_calendars SELECT 'c' || (n / 5000), 'job' || n, false FROM {many}")
    _execute(bed, "ANALYZE")
    with bed.database.read() as connection:
        newest = connection.execute(text("SELECT max(revision) FROM calendar_versions")).scalar_one()
    pruning, beyond = SqlPruning(bed.database), CreateRuns((), lease.now, control=newest)
    asked = {
        "revision": lambda: bed.leader.create_runs(lease, beyond),
        "revision ": lambda: bed.leader.controls(newest - 5, lease.now - DAY),
        "calendar_versions": lambda: bed.calendars.versions_of(["c3"], lease.now),
        "calendar_versions ": lambda: bed.calendars.versions("c3", 10, None),
        "ended": lambda: pruning.scan(Past.CALENDAR_VERSIONS, lease.now - 39 * DAY, None, 100),
        "job_calendars": lambda: bed.calendars.jobs_using("c3", 100, "job20000"),
        "job_calendars ": lambda: bed.leader.calendar_jobs("c3", "job20000", lease.now, 100),
    }
    for index, call in asked.items():
        plan = plan_of(bed, call, *_TABLES)
        assert index.strip() in plan, plan
        assert_never_scans(plan, *_TABLES)
    with pytest.raises(LeaseLost):
        bed.leader.create_runs(lease, CreateRuns((), lease.now, control=0))
