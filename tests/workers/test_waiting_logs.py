"""Logs that wait for a leader, in a real Redis: bounded by their bytes, whatever the length of the last one."""

import os
from base64 import b64encode
from collections.abc import Iterator

import pytest

from itinerary.protocol.attempt_logs import PackedLog
from itinerary.protocol.keys import Keys
from itinerary.worker import reporting
from itinerary.worker.connection import RedisConnection
from itinerary.worker.reporting import Report, clock, send

pytestmark = pytest.mark.redis
LOGS = Keys().logs


@pytest.fixture
def connection(redis_url: str) -> Iterator[RedisConnection]:
    own = RedisConnection(redis_url)
    yield own
    own.client.flushdb()
    own.client.close()


def log_of(size: int) -> PackedLog:
    return PackedLog(b64encode(os.urandom(size * 3 // 4)).decode(), size)


def ended(connection: RedisConnection, number: int, size: int) -> None:
    """An attempt ends, with a log of so many bytes."""
    task_id = f"run{number}~1"
    body = {"task_id": task_id, "worker": "w@h", "started_at": None, "result": None, "reason": None}
    assert send(connection, Report(task_id, "succeeded", clock(), body), "*", False, log=log_of(size))


def test_a_long_log_cuts_no_short_ones_off_where_there_is_room(connection: RedisConnection) -> None:
    for number in range(700):
        ended(connection, number, 200)
    ended(connection, 700, 88 * 1024)
    assert connection.client.xlen(LOGS) == 701


def test_the_oldest_go_when_all_are_too_many_bytes(
    connection: RedisConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "_LOGS_BYTES", bound := 2 * 1024 * 1024)
    for number in range(640):
        ended(connection, number, 200 if number < 320 else 10 * 1024)
    used = connection.client.memory_usage(LOGS, samples=0)
    assert bound // 2 < used < bound + 2 * 64 * 10 * 1024
    newest = connection.client.xrevrange(LOGS, count=1)
    assert newest[0][1]["task_id"] == "run639~1"


def test_who_may_not_ask_for_bytes_keeps_as_many_as_surely_fit(connection: RedisConnection, redis_url: str) -> None:
    rules = ["reset", "on", ">secret", "~*", "&*", "+@all", "-memory"]
    connection.client.execute_command("ACL", "SETUSER", "narrow", *rules)
    narrow = RedisConnection(redis_url.replace("redis://", "redis://narrow:secret@"))
    try:
        for number in range(700):
            ended(narrow, number, 200)
    finally:
        narrow.client.close()
        connection.client.execute_command("ACL", "DELUSER", "narrow")
    assert 256 <= connection.client.xlen(LOGS) <= 256 + 64 + 100
