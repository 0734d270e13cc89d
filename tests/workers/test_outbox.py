"""The main process writes the reports of its pool: together, each once, and keeps what Redis does not take."""

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis

from itinerary.protocol.attempt_logs import Tail, packed
from itinerary.protocol.keys import Keys
from itinerary.worker.claim import Verdict, claim
from itinerary.worker.connection import RedisConnection
from itinerary.worker.outbox import REFUSALS, HandedOver, Outbox
from itinerary.worker.reporting import Report, ReportBuilder
from scheduler_service.broker.claims import RedisClaims
from scheduler_service.core.leader.messages import Started, Succeeded, decode

KEYS = Keys()
AT = 1_800_000_000_000_000

pytestmark = [pytest.mark.redis, pytest.mark.slow]


@pytest.fixture
def connection(redis_url: str) -> Iterator[RedisConnection]:
    opened = RedisConnection(redis_url)
    with closing(RedisClaims(redis_url)) as claims:
        claims.accept(claims.query_epoch().name, 0)
    yield opened
    opened.client.close()


def report(name: str, result: object = None) -> Report:
    return ReportBuilder(f"{name}~1", "celery@here", AT).succeeded(result)


def claimed(connection: RedisConnection, *names: str) -> None:
    for name in names:
        assert claim(connection, f"{name}~1", f"token of {name}", "celery@here", AT) is Verdict.WON


def ends(connection: RedisConnection) -> list[str]:
    entries: Any = connection.client.xrange(KEYS.inbox)
    found = [decode(fields) for _, fields in entries]
    assert all(isinstance(one, Started | Succeeded) for one in found)
    return [one.run_id for one in found if isinstance(one, Succeeded)]


def test_all_that_is_in_hand_is_written_in_order_and_once(connection: RedisConnection) -> None:
    names = [f"run-{n:03}" for n in range(450)]
    claimed(connection, *names)
    outbox = Outbox(connection)
    assert outbox.due_at() == float("inf")
    wakes = [outbox.add(HandedOver(report(name), f"token of {name}", packed(Tail("a line", 6)))) for name in names]
    outbox.add(HandedOver(report(names[0], "again"), f"token of {names[0]}"))
    assert wakes == [True, *[False] * 449], "the thread that writes is woken once"
    assert outbox.attempts()[:2] == ["run-000~1", "run-001~1"]
    began = time.monotonic()
    outbox.write()
    assert outbox.attempts() == []
    assert ends(connection) == names
    assert outbox.due_at() == float("inf")
    assert outbox.add(HandedOver(report(names[0]), f"token of {names[0]}"))
    assert outbox.due_at() > began, "it rests"
    logs: Any = connection.client.xlen(KEYS.logs)
    assert logs == 450


def test_what_a_restarted_redis_does_not_know_by_name_is_sent_whole(connection: RedisConnection) -> None:
    claimed(connection, "a", "b", "c")
    outbox = Outbox(connection)
    outbox.add(HandedOver(report("a"), "token of a"))
    outbox.write()
    connection.client.script_flush()
    for name in ("b", "c"):
        outbox.add(HandedOver(report(name), f"token of {name}"))
    outbox.write()
    assert ends(connection) == ["a", "b", "c"]


def test_a_user_that_may_not_call_scripts_by_name_sends_them_whole(connection: RedisConnection, redis_url: str) -> None:
    connection.client.execute_command("ACL", "SETUSER", "whole", "on", ">secret", "~*", "&*", "+@all", "-evalsha")
    limited = RedisConnection(redis_url.replace("redis://", "redis://whole:secret@"))
    try:
        claimed(limited, "a")
        outbox = Outbox(limited)
        outbox.add(HandedOver(report("a"), "token of a"))
        outbox.write()
        assert ends(connection) == ["a"]
    finally:
        limited.client.close()
        connection.client.execute_command("ACL", "DELUSER", "whole")


def test_what_redis_refuses_stays_in_hand_and_keeps_no_other_out(connection: RedisConnection) -> None:
    claimed(connection, "a", "odd", "b")
    connection.client.set(KEYS.result("odd~1"), "no hash")
    outbox = Outbox(connection)
    for name in ("a", "odd", "b"):
        outbox.add(HandedOver(report(name), f"token of {name}"))
    outbox.write()
    assert outbox.attempts() == ["odd~1"]
    assert [name for name in ends(connection) if name != "odd"] == ["a", "b"]
    assert outbox.due_at() == float("inf"), "it is not tried again at once"
    connection.client.delete(KEYS.result("odd~1"))
    outbox.try_again(took_a_heartbeat=True)
    outbox.write()
    assert outbox.attempts() == []


def test_what_redis_refuses_for_a_minute_is_given_up(
    connection: RedisConnection, caplog: pytest.LogCaptureFixture
) -> None:
    claimed(connection, "odd")
    connection.client.set(KEYS.result("odd~1"), "no hash")
    outbox = Outbox(connection)
    outbox.add(HandedOver(report("odd"), "token of odd"))
    outbox.write()
    for _ in range(REFUSALS - 1):
        outbox.try_again(took_a_heartbeat=True)
        outbox.write()
        outbox.try_again(took_a_heartbeat=False)
        outbox.write()
    assert outbox.attempts() == ["odd~1"]
    outbox.try_again(took_a_heartbeat=True)
    outbox.write()
    assert outbox.attempts() == []
    held, given_up = [one for one in caplog.messages if "refuses a report" in one]
    assert "which is held: odd~1" in held
    assert "which is given up: odd~1" in given_up


def test_who_adds_while_a_write_begins_is_not_told_that_the_writer_is_awake(connection: RedisConnection) -> None:
    class Meanwhile(Outbox):
        """Another thread adds between the two steps of a write."""

        def _take_in(self) -> None:
            if not self.attempts():
                assert self.add(HandedOver(report("b"), "token of b"))
            super()._take_in()

    outbox = Meanwhile(connection)
    outbox.write()
    assert ends(connection) == ["b"]
    assert outbox.due_at() == float("inf"), "it sleeps until it is woken"
    assert outbox.add(HandedOver(report("c"), "token of c")), "so this has to wake it"


def test_what_no_entry_can_hold_is_given_up_alone(
    connection: RedisConnection, caplog: pytest.LogCaptureFixture
) -> None:
    claimed(connection, "a", "odd", "b")
    outbox = Outbox(connection)
    odd = Report("odd~1", "succeeded", AT, {"task_id": "odd~1", "result": float("nan")})
    for one in (report("a"), odd, report("b")):
        outbox.add(HandedOver(one, f"token of {one.task_id[:-2]}"))
    outbox.write()
    assert ends(connection) == ["a", "b"]
    assert outbox.attempts() == []
    assert "is given up: odd~1" in caplog.text


def test_everything_stays_in_hand_while_redis_is_away() -> None:
    outbox = Outbox(RedisConnection("redis://127.0.0.1:1/0"))
    outbox.add(HandedOver(report("a"), "token"))
    with pytest.raises(redis.ConnectionError):
        outbox.write()
    assert outbox.attempts() == ["a~1"]
    assert outbox.due_at() == float("-inf"), "at once"
