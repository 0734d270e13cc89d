"""The claim that every attempt needs before its first line of user code, as one Redis script.

Promises one win per attempt, for the first token that asks; the same token wins again, since a lost reply must not lose
the run. Refuses claims in an epoch that the leader has not accepted, since earlier claims may be lost. Refuses messages
below the low watermark of their queue, since claims of ended attempts are forgotten. A day after its claim, an
unreported attempt counts as unknown. Never runs or reports tasks.

The leader's half is scheduler_service.broker.claims.
"""

from enum import Enum
from typing import Final

from itinerary.protocol.instants import Instant
from itinerary.protocol.wire import (
    EPOCH,
    INBOX,
    LUA_ACCEPTED,
    LUA_BELOW,
    LUA_SERVER,
    cancel_key,
    claim_key,
    entry,
    watermark_key,
)
from itinerary.worker.connection import RedisConnection

CLAIM_SECONDS: Final = 24 * 3600

# KEYS: epoch, claim, cancel flag, inbox, watermark. ARGV: token, seconds, seq of the message ('' if it has none), then
# the fields of the `started` entry in pairs. If the worker dies after this, the leader has `started` and will declare
# the attempt lost.
_CLAIM: Final = (
    LUA_SERVER
    + LUA_ACCEPTED
    + LUA_BELOW
    + """
if accepted ~= server then return 'wait' end
local holder = redis.call('GET', KEYS[2])
if holder == ARGV[1] then return 'won' end
if holder then return 'held' end
if redis.call('EXISTS', KEYS[3]) == 1 then return 'cancelled' end
if ARGV[3] ~= '' then
  local floor = redis.call('GET', KEYS[5])
  if below(ARGV[3], bottom) or (floor and below(ARGV[3], floor)) then return 'stale' end
end
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
redis.call('XADD', KEYS[4], '*', unpack(ARGV, 4))
return 'won'
"""
)


class Verdict(str, Enum):
    """The result of a claim: won, held by another, cancelled, too old a message, or wait.

    WAIT: ask again, since Redis may have lost data and the leader is still finding out which attempts run.
    """

    WON = "won"
    HELD = "held"
    CANCELLED = "cancelled"
    STALE = "stale"
    WAIT = "wait"

    # StrEnum needs Python 3.11; without these two methods, the text in logs depends on Python's version.
    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(str(self.value), spec)


def claim(
    connection: RedisConnection,
    task_id: str,
    token: str,
    worker: str,
    at: Instant,
    seq: int | None = None,
    queue: str | None = None,
) -> Verdict:
    """Ask once; after a redis error the claim may or may not be ours: ask again with the same token.

    `seq` and `queue` are those of the delivered message; they show the leader how far the queue was consumed.
    """
    started = entry("started", at, {"task_id": task_id, "worker": worker, "seq": seq})
    fields = [text for pair in started.items() for text in pair]
    keys = [EPOCH, claim_key(task_id), cancel_key(task_id), INBOX, watermark_key(queue or "")]
    number = "" if seq is None else str(seq)
    return Verdict(connection.run_script(_CLAIM, keys, [token, str(CLAIM_SECONDS), number, *fields]))
