"""The heads of queues on kombu's Redis transport: their lengths, and our first message among those of others.

Only reads, and reads a bounded part. Uses the same keys as workers with the same options.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import redis

from itinerary.protocol.batches import batched
from itinerary.protocol.wire import HEADER_SEQ
from scheduler_service.broker.client import connect
from scheduler_service.broker.marks import reads_marks
from scheduler_service.ports.broker import QueueHead, Queues

_ANSWERS_WITHIN: Final = 2.0
_READ_AT_ONCE: Final = 1_000
_SEARCHED_AT_HEAD: Final = 50
_SEARCHED_AT_MOST: Final = 5_000
_SEARCHED_BYTES: Final = 8 * 1024 * 1024
_SEARCHED_AT_ONCE: Final = 200


def is_redis(channel: Any) -> bool:
    """Whether the channel belongs to kombu's Redis transport."""
    return hasattr(channel, "global_keyprefix") and hasattr(channel, "priority_steps")


# A client costs as much as filling twenty messages.
_CLIENTS: Final[WeakKeyDictionary[Any, redis.Redis]] = WeakKeyDictionary()


def client_of(channel: Any) -> redis.Redis:
    """A client on kombu's own pool; the caller prefixes its keys, since kombu prefixes only the commands it uses."""
    client = _CLIENTS.get(channel)
    if client is None:
        client = _CLIENTS[channel] = redis.Redis(connection_pool=channel.pool)
    return client


def prefixed(channel: Any, key: str) -> str:
    """The key with the prefix that the broker uses."""
    return f"{channel.global_keyprefix}{key}"


def redis_heads(channel: Any, queues: Sequence[str]) -> dict[str, QueueHead]:
    """Length of each queue and our first message, over all its priority lists."""
    lists = {
        queue: [prefixed(channel, channel._q_for_pri(queue, step)) for step in channel.priority_steps]
        for queue in queues
    }
    return _heads(client_of(channel), lists)


class RedisQueues(Queues):
    """The queues of a Redis broker, read without Celery. Connects at the first query."""

    def __init__(self, broker_url: str, key_prefix: str | None) -> None:
        self._url = broker_url
        self._prefix = key_prefix or ""
        self._client: redis.Redis | None = None

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()

    def head(self, queue: str) -> QueueHead | None:
        """Head of the list that our messages are pushed to; None for another broker, or one that does not answer."""
        if not reads_marks(self._url):
            return None
        client = self._client = self._client or connect(self._url, answer_timeout=_ANSWERS_WITHIN)
        try:
            return _heads(client, {queue: [self._prefix + queue]})[queue]
        except (redis.RedisError, OSError):
            return None


def _heads(client: redis.Redis, lists: Mapping[str, Sequence[str]]) -> dict[str, QueueHead]:
    """Read the heads; workers pop from the right, starting with the list of the smallest priority number.

    However many queues, it takes one round trip, and a second one if others' messages come first somewhere.
    """
    keys = [key for listed in lists.values() for key in listed]
    first_of = dict(zip(keys, _ends(client, keys, 1), strict=True))
    heads: dict[str, QueueHead] = {}
    foreign: dict[str, int] = {}
    for queue, listed in lists.items():
        length = sum(first_of[key][0] for key in listed)
        first = next((ends[0] for key in listed if (ends := first_of[key][1])), None)
        seq = None if first is None else _seq_of(first)
        heads[queue] = QueueHead(length, seq, first is None)
        if first is not None and seq is None:
            foreign[queue] = length
    keys = [key for queue in foreign for key in lists[queue]]
    more_of = dict(zip(keys, _ends(client, keys, _SEARCHED_AT_HEAD), strict=True))
    for queue, length in foreign.items():
        seq = _first_seq([more_of[key][1] for key in lists[queue]])
        heads[queue] = _searched(client, lists[queue], length) if seq is None else QueueHead(length, seq)
    return heads


def _ends(client: redis.Redis, keys: Sequence[str], most: int) -> list[tuple[int, list[bytes]]]:
    """The length of each list, and the messages at its end that is consumed next."""
    found: list[tuple[int, list[bytes]]] = []
    for batch in batched(keys, _READ_AT_ONCE // most):
        with client.pipeline(transaction=False) as pipe:
            for key in batch:
                pipe.llen(key)
                pipe.lrange(key, -most, -1)
            answers = pipe.execute()
        found += zip(answers[0::2], answers[1::2], strict=True)
    return found


def _searched(client: redis.Redis, keys: Sequence[str], length: int) -> QueueHead:
    """Search all messages for ours, unless there are too many.

    Reads from the newest on: messages added meanwhile are read twice, and messages taken meanwhile were the oldest.
    """
    count = size = 0
    at_once = _SEARCHED_AT_ONCE
    for key in keys:
        start, seq = 0, None
        while True:
            messages: Any = client.lrange(key, start, start + at_once - 1)
            if not messages:
                break
            at_once *= 2
            start += len(messages)
            count += len(messages)
            size += sum(map(len, messages))
            if count > _SEARCHED_AT_MOST or size > _SEARCHED_BYTES:
                return QueueHead(length, None)
            seq = next((found for found in map(_seq_of, reversed(messages)) if found is not None), seq)
        if seq is not None:
            return QueueHead(length, seq)
    return QueueHead(length, None, none_of_ours=True)


def _first_seq(ends: Sequence[Sequence[bytes]]) -> int | None:
    """The seq of our first message among the next fifty; `ends`: those of each list, in the order of the lists."""
    left = _SEARCHED_AT_HEAD
    for messages in ends:
        nearest = messages[-left:] if left else ()
        seq = next((seq for seq in map(_seq_of, reversed(nearest)) if seq is not None), None)
        if seq is not None:
            return seq
        left -= len(nearest)
    return None


def _seq_of(message: bytes | str) -> int | None:
    """The seq in one of our raw messages; None for any other message."""
    try:
        seq = json.loads(message)["headers"][HEADER_SEQ]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return seq if isinstance(seq, int) else None
