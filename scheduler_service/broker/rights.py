"""The least rights in Redis of each kind of process: the one list, which the manual shows and `doctor` checks.

Owns the calls, keys and channels. Promises that a check changes nothing: each call is queued in a transaction, which is
where a server judges rights, and discarded.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import redis

from itinerary.protocol.keys import PREFIXES
from scheduler_service.broker.client import redis_errors

# The calls of redis-py itself. AUTH and HELLO need no right, and a refused CLIENT SETINFO is passed over.
_OF_CLIENTS: Final = ("PING", "SELECT 0")
_TRANSACTIONS: Final = ("multi", "exec", "discard")
_SCRIPTS: Final = ("EVAL return 0", "EVALSHA - 0", "SCRIPT LOAD -", "SCRIPT EXISTS -")
# Without it a weaker sign stands for the server's run id.
OPTIONAL: Final = "INFO server"


@dataclass(frozen=True, slots=True)
class Rights:
    """One kind of process, with its calls on our keys and on Celery's; a call stands for its command and its key.

    `{k}` is our key prefix, `{b}` and `{d}` are prefix and database of the broker, `{q}` is a queue.
    """

    own: tuple[str, ...]
    broker: tuple[str, ...]
    keys: tuple[str, ...]
    channels: tuple[str, ...]

    def rules(self, prefix: str = "", queues: Sequence[str] = ("default",)) -> str:
        """The rules of ACL SETUSER, for a broker without a prefix of its own in database 0 of the same server."""
        names = {_command(call) for call in (*_OF_CLIENTS, *_SCRIPTS, OPTIONAL, *self.own, *self.broker)}
        keys = [f"{prefix}itinerary:*", *([PREFIXES] if prefix else []), *(f"{queue}*" for queue in queues), *self.keys]
        return " ".join(
            ["resetchannels", *(f"~{key}" for key in keys), *(f"&{channel}" for channel in self.channels)]
            + [f"+{name}" for name in sorted(names | set(_TRANSACTIONS))]
        )


SERVICE: Final = Rights(
    own=(
        "XADD {k}itinerary:inbox * v 1",
        "XREAD STREAMS {k}itinerary:inbox 0",
        "XLEN {k}itinerary:inbox",
        "XTRIM {k}itinerary:inbox MINID 0",
        "GET {k}itinerary:redis",
        "SET {k}itinerary:beacon 1",
        "HGETALL {k}itinerary:result:x",
        "HGET {k}itinerary:generation:server mark",
        "HSET {k}itinerary:generation:server mark 1",
        "UNLINK {k}itinerary:claim:x",
        "DEL {k}itinerary:floor:x",
        "SADD {k}itinerary:floors x",
        "SREM {k}itinerary:floors x",
        "SET {k}itinerary:logs:watched 1",
        "XDEL {k}itinerary:logs 0-1",
        "SSCAN {k}itinerary:floors 0",
        "LPUSH {k}itinerary:reply:x 1",
        "EXPIRE {k}itinerary:reply:x 60",
        "LPOP {k}itinerary:reply:x",
        "BLPOP {k}itinerary:reply:x 1",
        f"ZADD {PREFIXES} 0 x",
        f"ZREMRANGEBYSCORE {PREFIXES} 0 0",
    ),
    broker=(
        "LPUSH {b}{q} 1",
        "LLEN {b}{q}",
        "LRANGE {b}{q} 0 0",
        "SADD {b}_kombu.binding.x 1",
        "SMEMBERS {b}_kombu.binding.x",
        "PUBLISH {b}/{d}.celery.pidbox 1",
        "GET {b}{k}itinerary:broker",
        "SET {b}{k}itinerary:broker 1",
    ),
    keys=("_kombu.*",),
    channels=("/0.celery.pidbox",),
)
"""Of leaders, APIs and commands that use Redis (`doctor`, `up`)."""

WORKER: Final = Rights(
    own=(
        "XADD {k}itinerary:inbox * v 1",
        "XLEN {k}itinerary:inbox",
        "GET {k}itinerary:beacon",
        "SET {k}itinerary:claim:x 1",
        "EXISTS {k}itinerary:cancel:x",
        "HSET {k}itinerary:result:x v 1",
        "EXPIRE {k}itinerary:result:x 60",
        "MEMORY USAGE {k}itinerary:logs",
        "HGET {k}itinerary:generation:server mark",
        f"ZRANGE {PREFIXES} 0 -1",
    ),
    broker=(
        "GET {b}{k}itinerary:broker",
        "BRPOP {b}{q} 1",
        "RPOP {b}{q}",
        "LPUSH {b}{q} 1",
        "RPUSH {b}{q} 1",
        "LLEN {b}{q}",
        "DEL {b}{q}",
        "HSET {b}unacked x 1",
        "HGET {b}unacked x",
        "HDEL {b}unacked x",
        "SET {b}unacked_mutex 1",
        "PEXPIRE {b}unacked_mutex 1",
        "ZADD {b}unacked_index 0 x",
        "ZREM {b}unacked_index x",
        "ZRANGE {b}unacked_index 0 1",
        "WATCH {b}unacked",
        "UNWATCH",
        "ZREVRANGEBYSCORE {b}unacked_index 0 0",
        "ZRANGEBYSCORE {b}_kombu.binding_deadlines 0 0",
        "TIME",
        "SADD {b}_kombu.binding.x 1",
        "SREM {b}_kombu.binding.x 1",
        "SMEMBERS {b}_kombu.binding.x",
        "PUBLISH {b}/{d}.celeryev/x 1",
        "SUBSCRIBE {b}/{d}.celeryev/x",
        "UNSUBSCRIBE {b}/{d}.celeryev/x",
        "PSUBSCRIBE {b}/{d}.celery.pidbox",
        "PUNSUBSCRIBE {b}/{d}.celery.pidbox",
    ),
    keys=("_kombu.*", "unacked*", "celeryev.*", "*.celery.pidbox*"),
    # A pattern may be subscribed only if it stands here letter by letter.
    channels=("/0.celery.pidbox", "/0.celeryev/*", "/0.celeryev/worker.*"),
)
"""Of Celery workers, ours and those of apps."""


def missing(client: redis.Redis, calls: Sequence[str], prefix: str = "", broker_prefix: str = "") -> list[str]:
    """The calls that the client's user may not make on this server."""
    database = client.connection_pool.connection_kwargs.get("db", 0)
    listed = [
        call.format(k=prefix, q="default", b=broker_prefix, d=database) for call in ("PING", *_SCRIPTS[1:3], *calls)
    ]
    with redis_errors():
        connection: Any = client.connection_pool.get_connection()
        try:
            connection.send_packed_command(connection.pack_commands(list(_queued(listed))))
            refused = [_refused(connection, call) for call in listed]
        finally:
            connection.disconnect()
            client.connection_pool.release(connection)
    return [call for call in dict.fromkeys(refused) if call is not None]


def _queued(calls: Iterable[str]) -> Iterator[list[str]]:
    for call in calls:
        yield from (["MULTI"], call.split(), ["DISCARD"])


def _refused(connection: Any, call: str) -> str | None:
    """Read the three answers to a call; return the command that the server refused."""
    opened, queued, _ = (_answered(connection) for _ in range(3))
    return (call if not queued else None) if opened else "MULTI"


def _answered(connection: Any) -> bool:
    try:
        connection.read_response()
    except redis.ResponseError:
        return False
    return True


def _command(call: str) -> str:
    """The name as ACLs have it, with a subcommand where the command has them."""
    first, second, *_ = (*call.lower().split(), "")
    return f"{first}|{second}" if first in ("script", "memory") else first
