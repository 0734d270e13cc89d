"""The Dispatcher port: what every implementation keeps, and that a message of ours is Celery's own."""

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Protocol
from urllib.parse import urlsplit

import pytest
import redis

from itinerary.protocol.errors import BrokerUnavailable
from itinerary.protocol.identity import task_id
from itinerary.protocol.instants import SECOND, parse_instant
from scheduler_service.broker.dispatcher import CeleryDispatcher, publishing_app
from scheduler_service.broker.queue_heads import RedisQueues
from scheduler_service.core.leader.results import ServerEpoch
from scheduler_service.core.model import DispatchedRun
from scheduler_service.ports.broker import Dispatcher, QueueHead
from tests.support.fakes_redis import FakeDispatcher
from tests.support.processes import free_port
from tests.support.proxy import FaultProxy
from tests.support.redis_server import RedisServer

NOON = parse_instant("2026-12-01T12:00:00Z")


def dispatched(name: str = "billing.close_2026-12-01T12:00:00Z", **changes: Any) -> DispatchedRun:
    run = DispatchedRun(
        run_id=name,
        attempt=1,
        seq=7_000_001,
        term=7,
        job_id="billing.close",
        task="billing.close_month",
        args=[1, "two"],
        kwargs={"three": {"four": [5]}},
        queue="default",
        priority=5,
        scheduled_at=NOON,
        due_at=NOON + SECOND,
        timeout=None,
    )
    return run._replace(**changes)


class Broker(Protocol):
    """The dispatcher, and what a worker would see."""

    dispatcher: Dispatcher

    def pop(self, queue: str) -> str | None: ...

    def push_foreign(self, queue: str) -> None: ...

    def wipe(self) -> None: ...


class FakeBroker:
    def __init__(self) -> None:
        self.dispatcher = FakeDispatcher()
        self.pop = self.dispatcher.pop
        self.push_foreign = self.dispatcher.push_foreign
        self.wipe = self.dispatcher.wipe


@dataclass
class RealBroker:
    """Redis seen as kombu's workers see it: they pop from the right."""

    dispatcher: CeleryDispatcher
    client: "redis.Redis"
    prefix: str = ""

    def pop_raw(self, queue: str) -> dict[str, Any] | None:
        text: Any = self.client.rpop(self.prefix + queue)
        return None if text is None else json.loads(text)

    def pop(self, queue: str) -> str | None:
        message = self.pop_raw(queue)
        return None if message is None else message["headers"].get("id")

    def wipe(self) -> None:
        self.client.flushdb()

    def push_foreign(self, queue: str) -> None:
        self.client.lpush(self.prefix + queue, json.dumps({"body": "", "headers": {}, "properties": {}}))


def real_broker(url: str, prefix: str = "") -> Iterator[RealBroker]:
    options = {"global_keyprefix": prefix} if prefix else {}
    with (
        closing(CeleryDispatcher(publishing_app(url, options))) as dispatcher,
        redis.Redis.from_url(url) as client,
    ):
        yield RealBroker(dispatcher, client, prefix)


@pytest.fixture(params=["fake", pytest.param("redis", marks=pytest.mark.redis), "valkey", "prefixed"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    match request.param:
        case "fake":
            yield FakeBroker()
        case "prefixed":
            yield from real_broker(request.getfixturevalue("redis_url"), "shop:")
        case server:
            yield from real_broker(request.getfixturevalue(f"{server}_url"))


@pytest.fixture
def real(redis_url: str) -> Iterator[RealBroker]:
    yield from real_broker(redis_url)


def test_the_heads_of_many_queues_take_few_round_trips(real: RealBroker, redis_url: str) -> None:
    address = urlsplit(redis_url)
    with (
        FaultProxy(address.port or 0) as proxy,
        closing(CeleryDispatcher(publishing_app(f"redis://127.0.0.1:{proxy.port}{address.path}"))) as dispatcher,
    ):
        for number in range(60):
            real.push_foreign(f"queue.{number}")
            real.dispatcher.publish([dispatched(f"job_{number}", queue=f"queue.{number}", seq=number)])
        queues = [f"queue.{number}" for number in range(60)]
        dispatcher.heads(queues)  # connects
        before = proxy.asked
        heads = dispatcher.heads(queues)
        assert 2 <= proxy.asked - before < 30, "each queue alone would take two"
    assert heads == {queue: QueueHead(2, number) for number, queue in enumerate(queues)}


def test_runs_leave_their_queue_in_the_order_they_were_published(broker: Broker) -> None:
    runs = [dispatched(f"job_{n}", task=f"task_{n % 3}", seq=n) for n in range(1, 8)]
    broker.dispatcher.publish(runs[:4])
    broker.dispatcher.publish(runs[4:])
    assert [broker.pop("default") for _ in runs] == [task_id(run.run_id, 1) for run in runs]
    assert broker.pop("default") is None


def test_the_task_id_names_run_and_attempt(broker: Broker) -> None:
    broker.dispatcher.publish([dispatched("job_x", attempt=3)])
    assert broker.pop("default") == "job_x~3"


def test_each_run_goes_to_its_own_queue(broker: Broker) -> None:
    broker.dispatcher.publish(
        [dispatched("a", queue="slow"), dispatched("b", queue="fast"), dispatched("c", queue="slow")]
    )
    assert [broker.pop("slow"), broker.pop("fast"), broker.pop("slow")] == ["a~1", "b~1", "c~1"]


def test_publishing_nothing_sends_nothing(broker: Broker) -> None:
    broker.dispatcher.publish([])
    assert broker.dispatcher.heads(["default"])["default"].length == 0


def test_a_queue_has_the_length_and_the_seq_of_what_is_consumed_next(broker: Broker) -> None:
    broker.dispatcher.publish([dispatched("a", seq=11), dispatched("b", seq=12)])
    head = broker.dispatcher.heads(["default", "empty"])
    assert (head["default"].length, head["default"].seq) == (2, 11)
    assert (head["empty"].length, head["empty"].seq) == (0, None)
    broker.pop("default")
    assert broker.dispatcher.heads(["default"])["default"].seq == 12


def test_the_first_message_of_ours_is_found_behind_foreign_ones(broker: Broker) -> None:
    for _ in range(3):
        broker.push_foreign("default")
    broker.dispatcher.publish([dispatched("a", seq=21), dispatched("b", seq=22)])
    head = broker.dispatcher.heads(["default"])["default"]
    assert (head.length, head.seq) == (5, 21)


@pytest.mark.parametrize("foreign", [0, 1, 49, 50, 51, 450])
def test_a_queue_whose_messages_are_all_foreign_is_known_to_hold_none_of_ours(broker: Broker, foreign: int) -> None:
    for _ in range(foreign):
        broker.push_foreign("default")
    assert broker.dispatcher.heads(["default"])["default"] == QueueHead(foreign, None, none_of_ours=True)
    broker.dispatcher.publish([dispatched("a", seq=21), dispatched("b", seq=22)])
    assert broker.dispatcher.heads(["default"])["default"] == QueueHead(foreign + 2, 21)


@pytest.mark.redis
@pytest.mark.parametrize("prefix", ["", "shop:"])
def test_who_only_looks_sees_the_same_queue(redis_url: str, prefix: str) -> None:
    for broker in real_broker(redis_url, prefix):
        with closing(RedisQueues(redis_url, prefix or None)) as queues:
            assert queues.head("default") == QueueHead(0, None, none_of_ours=True)
            broker.push_foreign("default")
            broker.dispatcher.publish([dispatched("a", seq=11)])
            assert queues.head("default") == broker.dispatcher.heads(["default"])["default"] == QueueHead(2, 11)


def test_a_broker_that_is_none_of_redis_or_away_is_not_spoken_for() -> None:
    assert RedisQueues("amqp://127.0.0.1:1//", None).head("default") is None
    assert RedisQueues("redis://127.0.0.1:1/0", None).head("default") is None


@pytest.mark.redis
def test_behind_more_foreign_messages_than_are_looked_at_one_of_ours_may_wait(real: RealBroker) -> None:
    real.client.lpush("default", *["{}"] * 5_001)
    assert real.dispatcher.heads(["default"])["default"] == QueueHead(5_001, None)


def test_a_ping_is_answered_and_a_revoke_taken(broker: Broker) -> None:
    broker.dispatcher.ping()
    broker.dispatcher.revoke(["job_x~1", "job_y~1"])


@pytest.mark.redis
def test_more_runs_than_one_command_carries_all_arrive_in_order(real: RealBroker) -> None:
    runs = [dispatched(f"job_{n}", kwargs={"text": "x" * 20_000}) for n in range(1, 1_201)]
    real.dispatcher.publish(runs)
    assert real.client.llen("default") == 1_200
    assert [real.pop("default") for _ in runs] == [f"job_{n}~1" for n in range(1, 1_201)]


def message_of_celery(real: RealBroker, url: str, run: DispatchedRun) -> dict[str, Any]:
    """What plain Celery sends for the same run."""
    app = publishing_app(url)

    @app.task(name=run.task, shared=False)
    def task(*args: Any, **kwargs: Any) -> None: ...

    soft = None if run.timeout is None else run.timeout / SECOND
    task.apply_async(
        args=run.args,
        kwargs=run.kwargs,
        task_id=task_id(run.run_id, run.attempt),
        queue=run.queue,
        retries=run.retries,
        ignore_result=None,
        soft_time_limit=soft,
        time_limit=None if soft is None else soft + 10,
        headers={
            "itinerary_run_id": run.run_id,
            "itinerary_job_id": run.job_id,
            "itinerary_attempt": run.attempt,
            "itinerary_scheduled_at": "2026-12-01T12:00:00Z",
            "itinerary_due_at": "2026-12-01T12:00:01Z",
            "itinerary_term": run.term,
            "itinerary_seq": run.seq,
            "itinerary_queue": run.queue,
            "itinerary_protocol": 1,
            "itinerary_logs": True,
        }
        | ({} if run.traceparent is None else {"traceparent": run.traceparent})
        | dict(run.headers or {}),
    )
    app.close()
    message = real.pop_raw(run.queue)
    assert message is not None
    return message


def comparable(message: dict[str, Any]) -> dict[str, Any]:
    """Without what differs between any two senders and sends: delivery tag, origin, reply address (ours has none)."""
    body = json.loads(base64.b64decode(message["body"]))
    headers = {name: value for name, value in message["headers"].items() if name != "origin"}
    properties = {
        name: value for name, value in message["properties"].items() if name not in ("delivery_tag", "reply_to")
    }
    return {**message, "body": body, "headers": headers, "properties": properties}


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FIRST = dispatched(
    "job_first",
    args=["other"],
    kwargs={},
    seq=1,
    attempt=9,
    retries=4,
    traceparent=TRACE,
    headers={"other": 1, "shadow": "Another"},
)


@pytest.mark.redis
@pytest.mark.parametrize(
    "run",
    [
        dispatched(),
        dispatched(args=[], kwargs={}),
        dispatched(attempt=3, retries=2, queue="billing:slow"),
        dispatched(timeout=90 * SECOND),
        dispatched(timeout=SECOND // 4, job_id=None),
        dispatched(args=["ä", "雪", None, 1.5, True], kwargs={"key": "a b", "nested": {"a": []}}),
        dispatched(args=[10**30]),
        dispatched(traceparent=TRACE.replace("-b7", "-00")),
        dispatched(headers={"tenant": "ä%s", "nested": {"a": [1, None]}}, traceparent=TRACE),
        dispatched(headers={"shadow": "Nightly"}),
        dispatched("100%_%(id)s", task='pkg.50%%_%(id)b_"ä"\\u0000id', queue="50%d", job_id="%s", args=["%b"]),
    ],
    ids=[
        "plain",
        "no arguments",
        "third attempt",
        "timeout",
        "short timeout",
        "odd text",
        "big number",
        "traced",
        "headers",
        "shadow",
        "%",
    ],
)
@pytest.mark.parametrize("earlier", [[], [FIRST]], ids=["its own template", "another run's template"])
def test_a_message_equals_the_one_that_celery_sends(
    real: RealBroker, redis_url: str, run: DispatchedRun, earlier: list[DispatchedRun]
) -> None:
    for other in earlier:
        real.dispatcher.publish([other._replace(task=run.task, queue=run.queue, timeout=run.timeout)])
        real.pop_raw(run.queue)
    real.dispatcher.publish([run])
    ours = real.pop_raw(run.queue)
    assert ours is not None
    celerys = message_of_celery(real, redis_url, run)
    assert comparable(ours) == comparable(celerys)
    assert ours["properties"]["delivery_tag"] != celerys["properties"]["delivery_tag"]
    assert ours["headers"]["itinerary_attempt"] == run.attempt
    assert (ours["headers"]["ignore_result"], ours["properties"]["reply_to"]) == (None, "")


@pytest.mark.redis
def test_values_that_json_has_no_word_for_travel_as_celery_sends_them(real: RealBroker, redis_url: str) -> None:
    typed = [{"$type": "decimal", "$value": "1.10"}, {"$type": "datetime", "$value": "2026-12-01T12:00:00+00:00"}]
    real.dispatcher.publish([dispatched(args=typed)])
    ours = real.pop_raw("default")
    assert ours is not None
    sent = dispatched(args=[Decimal("1.10"), datetime(2026, 12, 1, 12, tzinfo=UTC)])
    assert comparable(ours)["body"] == comparable(message_of_celery(real, redis_url, sent))["body"]


@pytest.mark.redis
def test_runs_of_one_task_keep_their_own_time_limits(real: RealBroker) -> None:
    limits = (90 * SECOND, 5 * SECOND, None)
    real.dispatcher.publish([dispatched(f"job_{limit}", timeout=limit) for limit in limits])
    messages = [real.pop_raw("default") for _ in limits]
    assert [message["headers"]["timelimit"] for message in messages if message] == [[100, 90], [15, 5], [None, None]]


@pytest.mark.redis
def test_every_message_has_a_delivery_tag_of_its_own(real: RealBroker) -> None:
    real.dispatcher.publish([dispatched(f"job_{n}") for n in range(5)])
    popped = [real.pop_raw("default") for _ in range(5)]
    assert len({message["properties"]["delivery_tag"] for message in popped if message}) == 5


@pytest.mark.redis
def test_long_arguments_are_shown_short_and_sent_whole(real: RealBroker) -> None:
    real.dispatcher.publish([dispatched(kwargs={"text": "x" * 5_000})])
    message = real.pop_raw("default")
    assert message is not None
    assert len(message["headers"]["kwargsrepr"]) <= 200
    assert comparable(message)["body"][1] == {"text": "x" * 5_000}


@pytest.mark.redis
def test_all_priority_lists_of_a_queue_count(real: RealBroker) -> None:
    real.client.lpush("default\x06\x163", "{}", "{}")
    real.dispatcher.publish([dispatched(seq=5)])
    head = real.dispatcher.heads(["default"])["default"]
    assert (head.length, head.seq) == (3, 5)


@pytest.mark.redis
def test_rubbish_in_a_queue_is_foreign(real: RealBroker) -> None:
    real.client.lpush("default", "not JSON", "[]", '{"headers": {"itinerary_seq": "text"}}')
    head = real.dispatcher.heads(["default"])["default"]
    assert (head.length, head.seq) == (3, None)


def test_a_broker_remembers_what_was_accepted_until_its_data_are_lost(broker: Broker) -> None:
    there = broker.dispatcher.query_epoch()
    assert there is not None
    assert (there.accepted, there.watermark) == (False, 0)
    broker.dispatcher.accept(there.name, 41 << 32)
    assert broker.dispatcher.query_epoch() == ServerEpoch(there.name, True, 41 << 32)
    broker.wipe()
    assert broker.dispatcher.query_epoch() == there


@pytest.mark.redis
def test_a_restarted_broker_is_another_one(redis_server: RedisServer) -> None:
    with closing(CeleryDispatcher(publishing_app(redis_server.url))) as dispatcher:
        there = dispatcher.query_epoch()
        assert there is not None
        dispatcher.accept(there.name, 7)
        redis_server.kill()
        with pytest.raises(BrokerUnavailable):
            dispatcher.query_epoch()
        redis_server.start()
        after = dispatcher.query_epoch()
        assert after is not None
        assert (after.accepted, after.watermark) == (False, 7)
        assert after.name != there.name


def test_another_broker_than_redis_has_no_epoch() -> None:
    with closing(CeleryDispatcher(publishing_app("memory://"))) as dispatcher:
        assert dispatcher.query_epoch() is None


def test_a_broker_that_is_away_is_reported_as_such_and_soon() -> None:
    with closing(CeleryDispatcher(publishing_app(f"redis://127.0.0.1:{free_port()}/0"))) as dispatcher:
        for call in (dispatcher.ping, lambda: dispatcher.publish([dispatched()]), lambda: dispatcher.revoke(["a~1"])):
            with pytest.raises(BrokerUnavailable):
                call()


def test_another_broker_than_redis_gets_the_same_runs_in_order() -> None:
    app = publishing_app("memory://")
    with closing(CeleryDispatcher(app)) as dispatcher:
        assert dispatcher.heads(["default"])["default"].length == 0
        dispatcher.publish([dispatched(f"job_{n}", attempt=n) for n in (1, 2, 3)])
        assert dispatcher.heads(["default"])["default"].length == 3
        with app.connection_for_read() as connection, connection.SimpleQueue("default") as queue:
            popped = [queue.get(block=False) for _ in range(3)]
        assert [message.headers["id"] for message in popped] == ["job_1~1", "job_2~2", "job_3~3"]
        assert popped[0].headers["itinerary_scheduled_at"] == "2026-12-01T12:00:00Z"


@pytest.mark.redis
def test_a_broker_that_was_killed_is_used_again_when_it_is_back(redis_server: RedisServer) -> None:
    with closing(CeleryDispatcher(publishing_app(redis_server.url))) as dispatcher:
        dispatcher.publish([dispatched("before")])
        redis_server.kill()
        with pytest.raises(BrokerUnavailable):
            dispatcher.publish([dispatched("meanwhile")])
        with pytest.raises(BrokerUnavailable):
            dispatcher.ping()
        redis_server.start()
        dispatcher.ping()
        dispatcher.publish([dispatched("after")])
        assert dispatcher.heads(["default"])["default"].length == 2
