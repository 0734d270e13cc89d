"""The Inbox port: what every implementation keeps."""

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis

from itinerary.protocol.errors import BrokerUnavailable
from itinerary.protocol.instants import HOUR, SECOND
from itinerary.protocol.keys import Keys
from itinerary.protocol.wire import entry
from scheduler_service.broker.client import connect
from scheduler_service.broker.inbox import RedisInbox
from scheduler_service.core.leader.messages import RunEnqueued, decode
from scheduler_service.ports.broker import Inbox
from tests.support.fakes_redis import FakeInbox
from tests.support.processes import free_port

KEYS = Keys()

AT = 1_800_000_000 * SECOND
START = "0-0"


@pytest.fixture(params=["fake", pytest.param("redis", marks=pytest.mark.redis), "valkey"])
def inbox(request: pytest.FixtureRequest) -> Iterator[Inbox]:
    if request.param == "fake":
        yield FakeInbox()
        return
    with closing(RedisInbox(request.getfixturevalue(f"{request.param}_url"))) as real:
        yield real


def enqueue(inbox: Inbox, *names: str) -> None:
    for name in names:
        inbox.send("run_enqueued", AT, {"run_ids": [name]})


def names(entries: tuple[tuple[str, object], ...]) -> list[str]:
    messages = [decode(fields) for _, fields in entries]  # type: ignore[arg-type]
    return [message.run_ids[0] for message in messages if isinstance(message, RunEnqueued)]


def test_entries_are_read_in_the_order_they_were_sent(inbox: Inbox) -> None:
    enqueue(inbox, "a", "b", "c")
    batch = inbox.read(START, 10, 0)
    assert names(batch.entries) == ["a", "b", "c"]
    assert batch.position == batch.entries[-1][0]
    assert batch.at_end


def test_a_sent_entry_is_decoded_to_what_was_sent(inbox: Inbox) -> None:
    enqueue(inbox, "billing.close_2026-12-01T01:00:00Z")
    (_, fields), *_ = inbox.read(START, 1, 0).entries
    assert decode(fields) == RunEnqueued(("billing.close_2026-12-01T01:00:00Z",))


def test_reading_goes_on_after_the_position(inbox: Inbox) -> None:
    enqueue(inbox, "a", "b", "c")
    first = inbox.read(START, 2, 0)
    assert not first.at_end
    rest = inbox.read(first.position, 2, 0)
    assert names(rest.entries) == ["c"]
    assert rest.at_end


def test_reading_twice_from_one_position_gives_the_same_entries(inbox: Inbox) -> None:
    enqueue(inbox, "a", "b")
    assert inbox.read(START, 10, 0) == inbox.read(START, 10, 0)


def test_an_empty_read_keeps_the_position_and_is_at_the_end(inbox: Inbox) -> None:
    batch = inbox.read("7-3", 10, 0)
    assert (batch.entries, batch.position, batch.at_end) == ((), "7-3", True)


def test_a_waiting_read_returns_when_the_wait_is_over(inbox: Inbox) -> None:
    assert inbox.read(START, 10, SECOND // 20).entries == ()


def test_a_waiting_read_wakes_for_an_entry(inbox: Inbox) -> None:
    sender = threading.Timer(0.1, enqueue, (inbox, "late"))
    sender.start()
    batch = inbox.read(START, 10, HOUR)
    sender.join()
    assert names(batch.entries) == ["late"]


def test_trimming_drops_what_is_committed_and_nothing_else(inbox: Inbox) -> None:
    enqueue(inbox, "a", "b", "c")
    committed = inbox.read(START, 2, 0).position
    inbox.trim(committed)
    assert names(inbox.read(START, 10, 0).entries) == ["c"]
    assert inbox.depth() == 1


def test_trimming_at_the_start_drops_nothing(inbox: Inbox) -> None:
    enqueue(inbox, "a")
    inbox.trim(START)
    assert inbox.depth() == 1


def test_a_buried_entry_does_not_leave_the_stream_by_itself(inbox: Inbox) -> None:
    enqueue(inbox, "a")
    ((entry_id, fields),) = inbox.read(START, 1, 0).entries
    inbox.dead_letter([(entry_id, fields, "body is not JSON")])
    assert inbox.depth() == 1


def test_an_answer_reaches_its_asker(inbox: Inbox) -> None:
    inbox.reply("asker-1", {"active_runs": 3, "unicode": "ä\ud800"})
    assert inbox.await_reply("asker-1", SECOND) == {"active_runs": 3, "unicode": "ä\ud800"}


def test_an_asker_is_woken_by_the_answer(inbox: Inbox) -> None:
    answering = threading.Timer(0.1, inbox.reply, ("asker-2", {"ok": True}))
    answering.start()
    assert inbox.await_reply("asker-2", HOUR) == {"ok": True}
    answering.join()


def test_an_asker_without_an_answer_gets_none(inbox: Inbox) -> None:
    inbox.reply("somebody else", {})
    assert inbox.await_reply("asker-3", SECOND // 20) is None


@pytest.mark.redis
def test_an_answer_lives_a_minute(redis_url: str) -> None:
    with closing(RedisInbox(redis_url)) as inbox, connect(redis_url) as client:
        inbox.reply("asker", {})
        assert 50 < client.ttl(KEYS.reply("asker")) <= 60


@pytest.mark.redis
def test_trimming_keeps_the_unread_entries_of_the_same_millisecond(redis_url: str) -> None:
    with closing(RedisInbox(redis_url)) as inbox, redis.Redis.from_url(redis_url) as client:
        for number in (1, 2, 3):
            client.xadd(KEYS.inbox, entry("run_enqueued", AT, {"run_ids": [str(number)]}), id=f"5-{number}")  # type: ignore[arg-type]
        inbox.trim("5-1")
        assert [entry_id for entry_id, _ in inbox.read(START, 10, 0).entries] == ["5-2", "5-3"]


@pytest.mark.redis
def test_entries_of_anybody_are_read_whatever_their_bytes(redis_url: str) -> None:
    with closing(RedisInbox(redis_url)) as inbox, redis.Redis.from_url(redis_url) as client:
        client.xadd(KEYS.inbox, {b"v": b"1", b"type": b"\xff\xfe"})
        ((entry_id, fields),) = inbox.read(START, 10, 0).entries
        assert fields["v"] == "1"
        inbox.dead_letter([(entry_id, fields, "entry type is not known \ud800")])
        ((_, dead),) = client.xrange(KEYS.inbox_dead)
        assert dead[b"entry_id"].decode() == entry_id
        assert b"not known" in dead[b"reason"]


@pytest.mark.slow
@pytest.mark.redis
def test_dead_letters_are_bounded_in_bytes_and_the_newest_stay(redis_url: str) -> None:
    with closing(RedisInbox(redis_url)) as inbox, connect(redis_url) as client:
        small: list[tuple[str, dict[str, str], str]] = [(f"small-{n}", {"v": "1"}, "odd") for n in range(3_000)]
        inbox.dead_letter(small[:50])
        inbox.dead_letter([(f"large-{n}", {"v": "x" * 70_000}, "not understood " * 100) for n in range(600)])
        kept: Any = client.xrange(KEYS.inbox_dead)
        assert kept[-1][1]["entry_id"] == "large-599"
        assert sum(len(dead["fields"]) + len(dead["reason"]) for _, dead in kept) < 8 * 1024 * 1024
        inbox.dead_letter(small)
        assert client.xlen(KEYS.inbox_dead) > 3_000, "many small ones fit"


@pytest.mark.redis
def test_a_position_beyond_the_stream_waits_for_what_comes_after_it(redis_url: str) -> None:
    with closing(RedisInbox(redis_url)) as inbox:
        enqueue(inbox, "a")
        position = inbox.read(START, 1, 0).position
        inbox.trim(position)
        enqueue(inbox, "b")
        assert names(inbox.read(position, 10, 0).entries) == ["b"]


def test_a_server_that_is_away_is_reported_as_such() -> None:
    with closing(RedisInbox(f"redis://127.0.0.1:{free_port()}/0")) as inbox:
        with pytest.raises(BrokerUnavailable):
            inbox.send("run_enqueued", AT, {"run_ids": []})
        with pytest.raises(BrokerUnavailable):
            inbox.read(START, 1, SECOND)
