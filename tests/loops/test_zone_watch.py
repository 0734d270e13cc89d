"""Hosts with different zone rules: whoever leads plans by the newest that ever led, and each says what differs."""

import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from itinerary.protocol.instants import HOUR, SECOND
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.schedules.zone_eras import eras_in_force, put_in_force
from scheduler_service.core.schedules.zone_rules import installed_rules
from scheduler_service.core.schedules.zones import offset_at
from scheduler_service.loops.zone_watch import ZoneFollower
from scheduler_service.ports.records import AuditFilter
from scheduler_service.ports.stores import RunFilter
from scheduler_service.sql.audit import SqlAuditLog
from scheduler_service.sql.database import Database
from scheduler_service.sql.zone_rules import SqlZoneRulesStore
from tests.support.leading import LeaderThread
from tests.support.processes import Child, project_env, wait_until
from tests.support.tz_files import zone_file_of

pytestmark = [pytest.mark.redis, pytest.mark.slow]
ZONE = "Europe/Berlin"
NINE_HOURS = 9 * 3600


def newer_host(folder: Path) -> str:
    """A host whose zone files are of 2099, by which Berlin is nine hours ahead; its PYTHONTZPATH."""
    for name, offset in (("UTC", 0), (ZONE, NINE_HOURS)):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(zone_file_of(offset))
    (folder / "+VERSION").write_text("2099a\n")
    return str(folder)


def test_newer_rules_of_one_host_are_those_of_every_host_after_it(
    sqlite_url: str, redis_url: str, tmp_path: Path
) -> None:
    with LeaderThread(sqlite_url, redis_url, holder="of today") as today:
        wait_until(SqlZoneRulesStore(today.database).adopted, what="the rules of this host to be adopted")
    env = project_env(
        ITINERARY_DATABASE_URL=sqlite_url, ITINERARY_REDIS_URL=redis_url, PYTHONTZPATH=newer_host(tmp_path),
        ITINERARY_LEASE_TTL="2s",
    )  # fmt: skip
    with Child([sys.executable, "-m", "scheduler_service.cli", "leader"], env=env) as newer:
        newer.wait_for_line("zone rules changed with this term")
        newer.kill()
    with closing(Database(sqlite_url)) as database:
        first, second = SqlZoneRulesStore(database).adopted()
        assert (first.version, second.version) == (installed_rules().version, "2099a")
        assert second.source == f"2099a of this host, {tmp_path}"
        entry, _ = SqlAuditLog(database).list(AuditFilter(actor="system"), 10, None).items
        assert entry.after["version"] == "2099a"
        # What the next minute brings happened an hour ago.
        with database.write() as connection:
            past = "UPDATE zone_rules SET effective_from = effective_from - :by WHERE id > 1"
            connection.execute(text(past), {"by": HOUR})
    with capture_logs() as logs, LeaderThread(sqlite_url, redis_url, holder="of today again") as older:
        hour = (datetime.now(UTC) + timedelta(hours=9, seconds=20)).hour
        schedule = {"kind": "cron", "expr": f"* {hour} * * * *", "timezone": ZONE}
        body = {"job_id": "nine", "task": "demo.task", "overlap": "allow", "schedule": schedule}
        older.jobs.create(read_job(body, created_at=older.now())[0])
        wait_until(lambda: older.runs.list(RunFilter(job_id="nine"), 9, None).items, what="runs by the rules of 2099")
        view = older.leases.peek(0)
        assert view is not None
        assert view.zone_rules == "2099a"
        assert len(SqlZoneRulesStore(older.database).adopted()) == 2
    said = [entry["event"] for entry in logs if "zone rules of this leader" in entry["event"]]
    assert [event.split()[6] for event in said] == ["older"]


def test_an_api_follows_what_a_leader_adopted_and_says_once_that_its_host_has_others(
    sqlite_url: str, redis_url: str
) -> None:
    def crash(error: BaseException) -> None:
        raise error

    with LeaderThread(sqlite_url, redis_url) as one, capture_logs() as logs:
        store = SqlZoneRulesStore(one.database)
        wait_until(store.adopted, what="the rules of this host to be adopted")
        follower = ZoneFollower(store, crash)
        follower.follow()
        assert eras_in_force() == ()
        with one.database.write() as connection:
            connection.execute(text("UPDATE zone_rules SET version = '2099a', digest = 'another'"))
        follower.follow()
        follower.follow()
        assert [era.rules.version for era in eras_in_force()] == ["2099a"]
        assert offset_at(ZONE, one.now() // SECOND) == 3600
    put_in_force(())
    said = [entry["event"] for entry in logs if "this API's host" in entry["event"]]
    assert said == [
        f"zone rules of this API's host are older than those in force ({installed_rules().text}; 2099a), by which this "
        "process goes all the same"
    ]
