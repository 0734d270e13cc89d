"""Logs of attempts in Redis: those that wait to be stored, and the newest lines of watched ones.

Owns both kinds of stream and the signs of watchers. Promises that an entry is either a log or named as none, and that
no stream stays once its entries were forgotten. A watcher who leaves is forgotten in seconds.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from itinerary.protocol.attempt_logs import WATCHED_SECONDS, Tail, compressed_of
from itinerary.protocol.errors import BadValue, MalformedEntry
from itinerary.protocol.identity import RUN_ID, split_task_id
from itinerary.protocol.instants import MILLISECOND, SECOND, Duration
from itinerary.protocol.keys import Keys
from scheduler_service.broker.client import ANSWER_TIMEOUT, connect, redis_errors
from scheduler_service.ports.logs import LiveLogs, SentLog, SentLogs

_LONGEST_WAIT: Final = 5 * SECOND
_LAST_POSITION: Final = 2**53

# KEYS: the stream. ARGV: entries. An empty stream would stay.
_FORGET: Final = """
redis.call('XDEL', KEYS[1], unpack(ARGV))
if redis.call('XLEN', KEYS[1]) == 0 then redis.call('DEL', KEYS[1]) end
"""


class RedisSentLogs(SentLogs):
    """The SentLogs port. For one thread."""

    def __init__(self, redis_url: str, key_prefix: str = "") -> None:
        self._keys = Keys(key_prefix)
        self._client = connect(redis_url, answer_timeout=_LONGEST_WAIT / SECOND + ANSWER_TIMEOUT)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def read(self, most: int, block: Duration) -> tuple[Sequence[SentLog], Sequence[str]]:
        """Read from the start: what was stored is no longer there."""
        logs, others = [], []
        for entry, fields in _entries(self._client, self._keys.logs, "0", most, block):
            try:
                run_id, attempt = split_task_id(fields.get("task_id"))
                if not RUN_ID.fullmatch(run_id):  # a database may refuse it, and with it all logs behind it
                    raise MalformedEntry(f"run_id {run_id[:80]!r} is none")
                logs.append(
                    SentLog(entry, run_id, attempt, _position(fields.get("end")), compressed_of(fields.get("log", "")))
                )
            except (BadValue, MalformedEntry):
                others.append(entry)
        return logs, others

    def forget(self, entries: Sequence[str]) -> None:
        with redis_errors():
            self._client.eval(_FORGET, 1, self._keys.logs, *entries)


class RedisLiveLogs(LiveLogs):
    """The LiveLogs port. Safe to use from several threads."""

    def __init__(self, redis_url: str, key_prefix: str = "") -> None:
        self._keys = Keys(key_prefix)
        self._client = connect(redis_url, answer_timeout=_LONGEST_WAIT / SECOND + ANSWER_TIMEOUT)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def watch(self, task_id: str) -> None:
        """Set the attempt's sign before the general one: who sees that finds this."""
        with redis_errors(), self._client.pipeline(transaction=False) as pipe:
            for key in (self._keys.watch(task_id), self._keys.watched):
                pipe.set(key, "1", ex=WATCHED_SECONDS)
            pipe.execute()

    def read(self, task_id: str, after: int, block: Duration) -> Tail:
        """Read beyond `after`, which is an entry's id; a gap between entries keeps only what follows it."""
        found = Tail("", after)
        for _, fields in _entries(self._client, self._keys.live_log(task_id), f"{after}-0", 100, block):
            text = fields.get("text", "")
            try:
                start = _position(fields.get("start"))
            except BadValue:
                continue
            found = Tail((found.text if start == found.end else "") + text, start + len(text))
        return found


def _entries(client: Any, key: str, after: str, most: int, block: Duration) -> list[tuple[str, Mapping[str, str]]]:
    wait_ms = max(1, min(block, _LONGEST_WAIT) // MILLISECOND) if block > 0 else None
    with redis_errors():
        answer: Any = client.xread({key: after}, count=most, block=wait_ms)
    return [(entry, fields or {}) for _, listed in answer or () for entry, fields in listed]


def _position(text: object) -> int:
    if not isinstance(text, str) or not text.isascii() or not text.isdigit() or not int(text[:20]) < _LAST_POSITION:
        raise BadValue("end", text, "a position is a whole number")
    return int(text)
