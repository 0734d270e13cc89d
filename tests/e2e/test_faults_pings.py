"""A leader killed with -9 around a ping or the judging of a monitor: nothing is lost, nothing told twice."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import select, update

from itinerary.protocol.instants import HOUR, SECOND
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.contract.monitor_json import read_monitor
from scheduler_service.core.leader.commands import Transition
from scheduler_service.core.monitors.model import MonitorState, PingOutcome
from scheduler_service.core.notifications.topics import TOPICS
from scheduler_service.core.pings import Ping, PingState
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.loops.pinger import Pinger
from scheduler_service.notify.ping_sender import sender_of
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.monitor_tables import monitors
from scheduler_service.sql.monitors import SqlMonitorStore
from scheduler_service.sql.notice_tables import notices, pings
from scheduler_service.sql.pings import SqlPingStore, keep_pings
from tests.loops.test_pinger import Pinged
from tests.support.killed_beside import HOLDER, NoMeter
from tests.support.processes import project_env

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
BY = AuditedChange("olga", "operator", "monitor.put")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(database_url, pool_size=4)) as opened:
        yield opened


def killed(url: str, point: str) -> None:
    """A process of its own gets to this point, and no further."""
    command = [sys.executable, "-m", "tests.support.killed_beside", url, point]
    done = subprocess.run(command, env=project_env(), capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr


def monitor_store(database: Database) -> SqlMonitorStore:
    return SqlMonitorStore(database, TOPICS)


def overdue(database: Database, *names: str) -> None:
    """Monitors whose pings did not come."""
    content = read_monitor("a", {"schedule": {"kind": "interval", "every": "1h"}}, 0)
    for name in names:
        monitor_store(database).put(name, content, "secret", by=BY)
    with database.write() as connection:
        connection.execute(update(monitors).values(alert_at=host_now() - SECOND))


def alarms(database: Database) -> list[tuple[str, str, int]]:
    """Each notice with its subject and its count."""
    asked = select(notices.c.topic, notices.c.subject, notices.c["count"])
    with database.read() as connection:
        return sorted((topic, subject, count) for topic, subject, count in connection.execute(asked))


def down(*names: str) -> list[tuple[str, str, int]]:
    return [("monitor.down", name, 1) for name in names]


@pytest.mark.parametrize(
    ("point", "arrived", "in_all"),
    [("claimed, not sent", 0, 1), ("sent, not stored", 1, 2), ("sent and stored", 1, 1)],
)
def test_a_ping_arrives_whenever_its_leader_is_killed(
    database: Database, database_url: str, point: str, arrived: int, in_all: int
) -> None:
    leases = SqlLeaseStore(database)
    lease = leases.acquire(0, HOLDER, HOUR)
    assert lease is not None
    with Pinged() as server:
        ping = Ping("job", PingState.SUCCESS, f"{server.address}/done")
        change = Transition("r", 1, Event.SUCCEED, RunState.COMPLETED, 0, pings=(ping,))
        with database.write() as connection:
            keep_pings(connection, [change], set(), database.read_clock(connection))
        killed(database_url, point)
        assert server.paths == ["/done"] * arrived
        leases.resign(lease)
        assert leases.acquire(0, "the next one", HOUR) is not None
        following = Pinger(leases, SqlPingStore(database), sender_of(True), NoMeter(), "the next one")
        following.round()
        assert server.paths == ["/done"] * arrived, "the claim of the killed one holds"
        with database.write() as connection:  # a minute later
            connection.execute(update(pings).values(next_at=pings.c.made_at))
        for _ in range(2):
            following.round()
        assert server.paths == ["/done"] * in_all


@pytest.mark.parametrize(
    ("point", "noted"),
    [
        ("judged, before COMMIT", down()),
        ("one judged, another not", down("a")),
        ("judged, all of them", down("a", "b")),
    ],
)
def test_an_alarm_is_raised_once_whenever_its_leader_is_killed(
    database: Database, database_url: str, point: str, noted: list[tuple[str, str, int]]
) -> None:
    overdue(database, "a", "b")
    killed(database_url, point)
    assert alarms(database) == noted
    for _ in range(2):
        monitor_store(database).judge(10)
    assert alarms(database) == down("a", "b")
    assert monitor_store(database).counts() == {MonitorState.DOWN: 2}


def test_a_ping_of_a_killed_api_is_not_stored_and_counts_when_it_is_sent_again(
    database: Database, database_url: str
) -> None:
    overdue(database, "a")
    monitor_store(database).judge(10)
    killed(database_url, "pinged, before COMMIT")
    assert alarms(database) == down("a")
    assert monitor_store(database).pings("a", 9) == []
    killed(database_url, "pinged, not answered")
    assert monitor_store(database).ping("a", "secret", PingOutcome.SUCCESS, None) is not None
    assert alarms(database) == sorted([*down("a"), ("monitor.up", "a", 1)])
    assert monitor_store(database).get("a").state is MonitorState.UP
