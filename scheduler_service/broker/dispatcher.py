"""Publish dispatched runs to Celery's broker, and read the heads of its queues.

Promises that every message is one that Celery itself would have sent. On Redis, Celery sends the first run of a kind
(task, queue, time limit) into a recorder, and later runs fill that template. Other brokers get Celery's own publish in
kombu's batches. Never retries: an error means that the outcome is unknown. Publishing has a connection of its own: one
thread may publish while another asks.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from celery import Celery
from kombu import Producer
from kombu.exceptions import ChannelError
from uuid_utils.compat import uuid7

from itinerary.protocol.batches import batched
from itinerary.protocol.errors import BrokerUnavailable
from itinerary.protocol.instants import Duration
from itinerary.protocol.keys import Keys
from itinerary.protocol.sentinel_urls import is_sentinel, read_sentinel_url
from itinerary.protocol.wire import SAMPLE_QUEUE
from itinerary.sentinel_client import transport_options as of_sentinels
from itinerary.server_traits import run_id_in
from scheduler_service.broker.client import ANSWER_TIMEOUT, CONNECT_TIMEOUT
from scheduler_service.broker.connection import BrokerConnection
from scheduler_service.broker.message import SHOWN, SendOptions, Template, record_template
from scheduler_service.broker.queue_heads import client_of, is_redis, prefixed, redis_heads
from scheduler_service.core.leader.results import ServerEpoch
from scheduler_service.core.model import DispatchedRun
from scheduler_service.ports.broker import Dispatcher, QueueHead

_PUSHED_AT_ONCE: Final = 500
_PUSHED_BYTES: Final = 4 * 1024 * 1024
_REVOKED_AT_ONCE: Final = 500
_TEMPLATES_KEPT: Final = 2_000
_TAG_BYTES: Final = 16


class _Publisher(Celery):
    """An app to which nobody replies: an address would be a queue that result backends fill and nobody empties."""

    @property
    def thread_oid(self) -> str:
        """The reply address of messages."""
        return ""


def publishing_app(broker_url: str, transport_options: Mapping[str, Any] | None = None) -> Celery:
    """Create a Celery app that only publishes; its `transport_options` (key prefix, ...) must equal the workers'."""
    master = read_sentinel_url(broker_url, "broker_url") if is_sentinel(broker_url) else None
    app = _Publisher("itinerary", broker=master.broker_url if master else broker_url, set_as_current=False)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_publish_retry=False,
        broker_pool_limit=2,
        broker_pool_acquire_timeout=ANSWER_TIMEOUT,
        broker_transport_options={
            **_bounded_options(broker_url),
            **(of_sentinels(master) if master else {}),
            **(transport_options or {}),
        },
    )
    app.amqp.argsrepr_maxsize = app.amqp.kwargsrepr_maxsize = SHOWN
    return app


def _bounded_options(broker_url: str) -> dict[str, Any]:
    if not broker_url.startswith(("redis", "rediss", "sentinel")):
        return {"confirm_publish": True} if broker_url.startswith(("amqp", "pyamqp")) else {}
    return {
        "socket_timeout": ANSWER_TIMEOUT,
        "socket_connect_timeout": CONNECT_TIMEOUT,
        "socket_keepalive": True,
        "health_check_interval": 10,
        "retry_on_timeout": False,
    }


class CeleryDispatcher(Dispatcher):
    """The Dispatcher port over Celery and kombu."""

    def __init__(self, app: Celery, key_prefix: str = "") -> None:
        self._app = app
        self._keys = Keys(key_prefix)
        self._publishing, self._asking = BrokerConnection(app), BrokerConnection(app)
        self._templates: dict[tuple[str, str, Duration | None], Template] = {}

    def close(self) -> None:
        """Close the connections."""
        self._publishing.close()
        self._asking.close()
        self._app.close()

    def publish(self, runs: Sequence[DispatchedRun]) -> None:
        """Publish in order within each queue; after an error any part of the runs may have been sent."""
        try:
            with self._publishing.channel() as channel:
                if is_redis(channel):
                    self._push(channel, runs)
                else:
                    self._send(channel, runs)
        except BrokerUnavailable:
            self._templates.clear()  # the next channel may give its lists other names
            raise

    def ping(self) -> None:
        """Make one round trip to the broker over the connection that publishes."""
        with self._publishing.channel() as channel:
            if is_redis(channel):
                client_of(channel).ping()
            else:
                with channel.connection.client.channel():  # only a request shows that a broker died
                    pass

    def heads(self, queues: Sequence[str]) -> dict[str, QueueHead]:
        """Read each queue's head: our first message among the next fifty to be consumed, or else among 5,000."""
        with self._asking.channel() as channel:
            if is_redis(channel):
                return redis_heads(channel, queues)
            return {queue: _declared_head(channel, queue) for queue in queues}

    def revoke(self, task_ids: Sequence[str]) -> None:
        """Send Celery's `revoke` with terminate, as its remote control does, but without its endless retries."""
        with self._asking.channel() as channel:
            control: Any = self._app.control
            mailbox = control.mailbox(channel.connection.client)
            producer = Producer(channel, auto_declare=False)
            for batch in batched(task_ids, _REVOKED_AT_ONCE):
                arguments = {"task_id": batch, "terminate": True, "signal": "SIGTERM"}
                producer.publish(
                    {"method": "revoke", "arguments": arguments, "destination": None, "pattern": None, "matcher": None},
                    exchange=mailbox.exchange.name,
                    declare=[mailbox.exchange],
                    headers={"clock": mailbox.clock.forward(), "expires": 0},
                    serializer=mailbox.serializer,
                )

    def query_epoch(self) -> ServerEpoch | None:
        """Read the run id of the broker's Redis, if it tells it, and the one that was accepted last."""
        with self._asking.channel() as channel:
            if not is_redis(channel):
                return None
            with client_of(channel).pipeline(transaction=False) as pipe:
                pipe.info("server")
                pipe.get(prefixed(channel, self._keys.epoch_of_broker))
                server, marker = pipe.execute(raise_on_error=False)
            if isinstance(marker, Exception):
                raise marker
        name = run_id_in(server) or "unnamed"
        accepted, _, watermark = (marker or b"").decode().partition(":")
        return ServerEpoch(name, accepted == name, int(watermark or 0))

    def mark(self) -> dict[str, Any]:
        """Read the broker's mark, creating it if it is missing; it disappears together with the queues."""
        with self._asking.channel() as channel:
            connection = channel.connection.client
            known = {"transport": connection.transport.driver_type, "where": connection.as_uri()}
            if not is_redis(channel):
                return known
            key = prefixed(channel, self._keys.broker_mark)
            with client_of(channel).pipeline(transaction=False) as pipe:
                pipe.set(key, str(uuid7()), nx=True)
                pipe.get(key)
                _, mark = pipe.execute()
            taken = prefixed(channel, channel._q_for_pri(SAMPLE_QUEUE, 0))
            return known | {"prefix": channel.global_keyprefix, "list": taken, "mark": mark.decode()}

    def accept(self, name: str, watermark: int) -> None:
        """Write the accepted epoch beside the queues, so that it disappears together with them."""
        with self._asking.channel() as channel:
            client_of(channel).set(prefixed(channel, self._keys.epoch_of_broker), f"{name}:{watermark}")

    def _push(self, channel: Any, runs: Sequence[DispatchedRun]) -> None:
        pending: dict[str, list[bytes]] = {}
        tags = os.urandom(_TAG_BYTES * len(runs)).hex()
        for n, run in enumerate(runs):
            template = self._template(channel, run)
            tag = tags[2 * _TAG_BYTES * n : 2 * _TAG_BYTES * (n + 1)]
            pending.setdefault(template.key, []).append(template.fill(run, tag))
        with client_of(channel).pipeline(transaction=False) as pipe:
            for key, messages in pending.items():
                for part in _bounded(messages):
                    pipe.lpush(prefixed(channel, key), *part)
            pipe.execute()

    def _template(self, channel: Any, run: DispatchedRun) -> Template:
        kind = (run.task, run.queue, run.timeout)
        template = self._templates.get(kind)
        if template is None:
            if len(self._templates) >= _TEMPLATES_KEPT:
                self._templates.clear()
            template = self._templates[kind] = record_template(self._app, channel, run, self._keys.prefix)
        return template

    def _send(self, channel: Any, runs: Sequence[DispatchedRun]) -> None:
        producer: Any = self._app.amqp.Producer(channel, auto_declare=False)
        with producer.batch():
            for run in runs:
                SendOptions.of(run, self._keys.prefix).send(self._app, producer, run)


def _bounded(messages: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Split the messages into parts that one command may carry."""
    if len(messages) <= _PUSHED_AT_ONCE and sum(map(len, messages)) <= _PUSHED_BYTES:
        yield [*messages]
        return
    part: list[bytes] = []
    size = 0
    for message in messages:
        if part and (len(part) >= _PUSHED_AT_ONCE or size + len(message) > _PUSHED_BYTES):
            yield part
            part, size = [], 0
        part.append(message)
        size += len(message)
    if part:
        yield part


def _declared_head(channel: Any, queue: str) -> QueueHead:
    with channel.connection.client.channel() as asking:
        try:
            return QueueHead(int(asking.queue_declare(queue=queue, passive=True).message_count), None)
        except ChannelError:
            return QueueHead(0, None)
