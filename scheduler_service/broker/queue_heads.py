"""The heads of queues on kombu's Redis transport: their lengths, and our first message among those of others.

Only reads, and reads a bounded part. Uses the same keys as workers with the same options.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import redis

from itinerary.protocol.wire import HEADER_SEQ
from scheduler_service.broker.client import connect
from scheduler_service.broker.marks import reads_marks
from scheduler_service.ports.broker import QueueHead, Queues

_ANSWERS_WITHIN: Final = 2.0
_SEARCHED_AT_HEAD: Final = 50
_SEARCHED_AT_MOST: Final = 5_000
_SEARCHED_BYTES: Final = 8 * 1024 * 1024
_SEARCHED_AT_ONCE: Final = 200


def is_redis(channel: Any) -> bool:
    """Whether the channel belongs to kombu's Redis transport."""
    return hasattr(channel, "global_keyprefix") and hasattr(channel, "priority_steps")


def client_of(channel: Any) -> redis.Redis:
    """A client on kombu's own pool; the caller prefixes its keys, since kombu prefixes only the commands it uses."""
    return redis.Redis(connection_pool=channel.pool)


def prefixed(channel: Any, key: str) -> str:
    """The key with the prefix that the broker uses."""
    return f"{channel.global_keyprefix}{key}"


def redis_head(channel: Any, queue: str) -> QueueHead:
    """Length of a queue and our first message, over all its priority lists."""
    keys = [prefixed(channel, channel._q_for_pri(queue, step)) for step in channel.priority_steps]
    return _head(client_of(channel), keys)


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
            return _head(client, [self._prefix + queue])
        except (redis.RedisError, OSError):
            return None


def _head(client: redis.Redis, keys: Sequence[str]) -> QueueHead:
    """Read the head. Workers pop from the right, starting with the list of the smallest priority number."""
    with client.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.llen(key)
            pipe.lrange(key, -1, -1)
        answers = pipe.execute()
    lengths, ends = answers[0::2], answers[1::2]
    first = next((end[0] for end in ends if end), None)
    seq = None if first is None else _seq_of(first)
    if first is not None and seq is None:
        seq = _first_seq(client, keys)
        if seq is None:
            return _searched(client, keys, sum(lengths))
    return QueueHead(sum(lengths), seq, first is None)


def _searched(client: redis.Redis, keys: Sequence[str], length: int) -> QueueHead:
    """Search all messages for ours, unless there are too many.

    Reads from the newest on: messages added meanwhile are read twice, and messages taken meanwhile were the oldest.
    """
    count = size = 0
    for key in keys:
        start, seq = 0, None
        while True:
            messages: Any = client.lrange(key, start, start + _SEARCHED_AT_ONCE - 1)
            if not messages:
                break
            start += len(messages)
            count += len(messages)
            size += sum(map(len, messages))
            if count > _SEARCHED_AT_MOST or size > _SEARCHED_BYTES:
                return QueueHead(length, None)
            seq = next((found for found in map(_seq_of, reversed(messages)) if found is not None), seq)
        if seq is not None:
            return QueueHead(length, seq)
    return QueueHead(length, None, none_of_ours=True)


def _first_seq(client: redis.Redis, keys: Sequence[str]) -> int | None:
    left = _SEARCHED_AT_HEAD
    for key in keys:
        messages: Any = client.lrange(key, -left, -1) if left else []
        seq = next((seq for seq in map(_seq_of, reversed(messages)) if seq is not None), None)
        if seq is not None:
            return seq
        left -= len(messages)
    return None


def _seq_of(message: bytes | str) -> int | None:
    """The seq in one of our raw messages; None for any other message."""
    try:
        seq = json.loads(message)["headers"][HEADER_SEQ]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return seq if isinstance(seq, int) else None
