"""The leader's inbox: a Redis stream, read from a position that the caller keeps.

Owns the stream, its dead-letter stream and the reply lists. Promises that no unread entry is ever trimmed (MINID of a
committed position, never MAXLEN). Never interprets an entry.
"""

import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from itinerary.protocol.batches import batched
from itinerary.protocol.errors import BrokerUnavailable
from itinerary.protocol.instants import MILLISECOND, SECOND, Duration, Instant
from itinerary.protocol.json_text import storable
from itinerary.protocol.keys import Keys
from itinerary.protocol.wire import entry
from scheduler_service.broker.client import ANSWER_TIMEOUT, connect, redis_errors
from scheduler_service.ports.broker import Inbox, InboxBatch

_LONGEST_WAIT: Final = 5 * SECOND
_REPLY_LIVES: Final = 60
_DEAD_AT_ONCE: Final = 100
_DEAD_KEPT: Final = 10_000
_DEAD_FIELDS: Final = 64 * 1024
_DEAD_REASON: Final = 500
_DEAD_BYTES: Final = 6 * 1024 * 1024


class RedisInbox(Inbox):
    """The Inbox port on Redis 6.2 or later, or Valkey. Safe to use from several threads."""

    def __init__(self, redis_url: str, key_prefix: str = "") -> None:
        self._keys = Keys(key_prefix)
        self._client = connect(redis_url)
        self._waiting_client = connect(redis_url, answer_timeout=_LONGEST_WAIT / SECOND + ANSWER_TIMEOUT)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._waiting_client.close()

    def read(self, position: str, count: int, block: Duration) -> InboxBatch:
        """Read entries after `position`; one call waits at most five seconds, even if `block` is longer."""
        wait_ms = max(1, min(block, _LONGEST_WAIT) // MILLISECOND) if block > 0 else None
        with redis_errors():
            answer: Any = self._waiting_client.xread({self._keys.inbox: position}, count=count, block=wait_ms)
        entries = tuple((entry_id, fields or {}) for _, listed in answer or () for entry_id, fields in listed)
        return InboxBatch(entries, entries[-1][0] if entries else position, len(entries) < count)

    def send(self, kind: str, at: Instant, body: Mapping[str, Any]) -> None:
        """XADD the entry; a second copy after an unknown outcome does no harm, so the caller may send again."""
        fields: Any = entry(kind, at, dict(body))
        with redis_errors():
            self._client.xadd(self._keys.inbox, fields)

    def dead_letter(self, entries: Sequence[tuple[str, Mapping[str, str], str]]) -> None:
        """Keep the newest malformed entries, each cut to 64 KiB: ten thousand of them, or fewer if they are large."""
        for batch in batched(entries, _DEAD_AT_ONCE):
            with redis_errors(), self._client.pipeline(transaction=False) as pipe:
                for entry_id, fields, reason in batch:
                    text = json.dumps(dict(fields), ensure_ascii=True)[:_DEAD_FIELDS]
                    dead: Any = {"entry_id": entry_id, "reason": storable(reason)[:_DEAD_REASON], "fields": text}
                    # The bound assumes that all entries are as long as this one, which limits the stream to ten times
                    # these bytes.
                    most = min(_DEAD_KEPT, _DEAD_BYTES // (len(text) + _DEAD_REASON))
                    pipe.xadd(self._keys.inbox_dead, dead, maxlen=most, approximate=True)
                pipe.execute()

    def trim(self, position: str) -> None:
        """XTRIM by MINID, with the id that follows `position`."""
        milliseconds, _, sequence = position.partition("-")
        with redis_errors():
            self._client.xtrim(self._keys.inbox, minid=f"{milliseconds}-{int(sequence or 0) + 1}", approximate=False)

    def depth(self) -> int:
        """Count the entries with XLEN."""
        with redis_errors():
            length: Any = self._client.xlen(self._keys.inbox)
        return int(length)

    def reply(self, reply_to: str, body: Mapping[str, Any]) -> None:
        """Push the answer onto the asker's list and set its expiry, in one MULTI."""
        key = self._keys.reply(reply_to)
        with redis_errors(), self._client.pipeline(transaction=True) as pipe:
            pipe.lpush(key, json.dumps(dict(body), allow_nan=False))
            pipe.expire(key, _REPLY_LIVES)
            pipe.execute()

    def await_reply(self, reply_to: str, timeout: Duration) -> Mapping[str, Any] | None:
        """BLPOP in pieces, so that no single wait outlasts the socket's timeout."""
        deadline = time.monotonic() + timeout / SECOND
        while True:
            left = deadline - time.monotonic()
            answer = self._pop(self._keys.reply(reply_to), min(left, _LONGEST_WAIT / SECOND))
            if answer is not None or left <= 0:
                return answer

    def _pop(self, key: str, seconds: float) -> Mapping[str, Any] | None:
        with redis_errors():
            if seconds <= 0:
                text: Any = self._client.lpop(key)
            else:
                popped: Any = self._waiting_client.blpop([key], timeout=math.ceil(seconds * 1000) / 1000)
                text = popped[1] if popped else None
        return None if text is None else _object(text)


def _object(text: str) -> Mapping[str, Any]:
    try:
        body = json.loads(text)
    except ValueError as exc:
        raise BrokerUnavailable(f"the reply is not JSON: {exc}") from exc
    if not isinstance(body, dict):
        raise BrokerUnavailable("the reply is not a JSON object")
    return body
