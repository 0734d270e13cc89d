"""Calendars edited while no leader leads, and leaders killed around the time from which the edit holds."""

import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from itinerary.protocol.instants import HOUR, SECOND, Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.calendars.model import Compiled, NamedSpan
from scheduler_service.core.calendars.stored import CalendarContent
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.ports.stores import RunFilter
from scheduler_service.sql import calendars
from tests.support.fault_bed import FaultBed
from tests.support.processes import wait_until
from tests.support.redis_server import RedisServer

pytestmark = [pytest.mark.e2e, pytest.mark.redis]
BY = AuditedChange("olga", "operator", "calendar.put")
EACH = {
    "job_id": "each", "task": "faulty.note", "schedule": {"kind": "interval", "every": "1s"}, "overlap": "allow",
    "misfire": {"policy": "fire_all", "max_catch_up": 100}, "calendars": {"exclude": ["closed"]},
}  # fmt: skip


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def bed(
    request: pytest.FixtureRequest, tmp_path: Path, _sqlite_template: Path, module_redis: RedisServer
) -> Iterator[FaultBed]:
    if request.param == "sqlite":
        for part in _sqlite_template.parent.glob("template.db*"):
            shutil.copy(part, tmp_path / part.name)
        url = f"sqlite:///{tmp_path}/template.db"
    else:
        url = request.getfixturevalue("module_postgres_url")
    with module_redis.client() as client:
        client.flushall()
    with FaultBed(tmp_path, url, module_redis.url, jobs=0) as bed:
        bed.begin().worker()
        yield bed


def now() -> Instant:
    return time.time_ns() // 1000


def put(bed: FaultBed, *spans: tuple[Instant, Instant]) -> Instant:
    compiled = Compiled("UTC", spans=tuple(NamedSpan(*span, "closed for a test") for span in spans))
    store = calendars.SqlCalendarStore(bed.database)
    return store.edit("closed", lambda _: CalendarContent({}, compiled), by=BY).effective_from


def fired_of(bed: FaultBed) -> list[Instant]:
    """The instants of the runs that are over."""
    runs = bed.runs.list(RunFilter(job_id="each"), 1_000, None).items
    return sorted(run.scheduled_at for run in runs if run.finished_at is not None)


def test_a_calendar_edited_between_leaders_that_are_killed_loses_and_doubles_nothing(
    bed: FaultBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the past too, while runs wait that were planned before."""
    holds_after = 12 * SECOND  # rows are planned 10 s ahead
    monkeypatch.setattr(calendars, "HOLDS_AFTER", holds_after)
    put(bed, (0, SECOND))
    bed.jobs.create(read_job(EACH, created_at=now())[0])
    wait_until(lambda: bed.endings("each"), what=lambda: bed.outputs)
    bed.leaders[0].child.kill_alone()
    closes = now() + holds_after + SECOND
    opens = closes + 4 * SECOND
    begins = put(bed, (now() - HOUR, now()), (closes, opens))
    assert begins <= closes
    second = bed.leader().wait_leading()
    wait_until(lambda: now() > begins - SECOND // 2, what=lambda: bed.outputs)
    second.child.signal(signal.SIGKILL)
    bed.leader().wait_leading()
    wait_until(lambda: any(at >= opens for at in fired_of(bed)), what=lambda: bed.outputs)
    bed.reconcile()
    fired = fired_of(bed)
    every = range(fired[0], fired[-1] + 1, SECOND)
    assert fired == [at for at in every if not closes <= at < opens], bed.outputs
    assert {ending for ending, _ in bed.endings("each")} == {"completed"}
