"""The claim that every attempt needs before its first line of user code, as one Redis script.

Promises one win per attempt, for the first token that asks; the same token wins again, since a lost reply must not lose
the run. Refuses claims in an epoch that the leader has not accepted, since earlier claims may be lost. Refuses messages
below the low watermark of their queue, since claims of ended attempts are forgotten. Refuses recalled messages, which a
mark in place of the claim names; later ones of the attempt may claim it. A day after its claim, an unreported attempt
counts as unknown. Never runs or reports tasks.

The leader's half is scheduler_service.broker.claims.
"""

import logging
from enum import Enum
from typing import Final

from itinerary.protocol.instants import Instant
from itinerary.protocol.wire import LUA_ACCEPTED, LUA_BELOW, LUA_SERVER, RECALLED, entry
from itinerary.worker.connection import RedisConnection

CLAIM_SECONDS: Final = 24 * 3600
_ELSEWHERE: Final = (
    "{task_id} is not started: a service with the key prefix {sender!r} sent it, and this worker has {own!r}. Give "
    "both the same ITINERARY_KEY_PREFIX; two installations need different queues, or a global_keyprefix each"
)

log = logging.getLogger("itinerary.worker")

# KEYS: epoch, claim, cancel flag, inbox, watermark, server's mark. ARGV: token, seconds, seq of the message ('' if it
# has none), then the fields of the `started` entry in pairs. If the worker dies after this, the leader has `started`
# and will declare the attempt lost.
_CLAIM: Final = (
    LUA_SERVER
    + LUA_ACCEPTED
    + LUA_BELOW
    + """
if accepted ~= server then return 'wait' end
local holder = redis.call('GET', KEYS[2])
if holder == ARGV[1] then return 'won' end
if holder then
  local recalled = string.match(holder, '^"""
    + RECALLED
    + """(%d+)$')
  if not recalled then return 'held' end
  if ARGV[3] == '' or not below(recalled, ARGV[3]) then return 'stale' end
end
if redis.call('EXISTS', KEYS[3]) == 1 then return 'cancelled' end
if ARGV[3] ~= '' then
  local watermark = redis.call('GET', KEYS[5])
  if below(ARGV[3], bottom) or (watermark and below(ARGV[3], watermark)) then return 'stale' end
end
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
redis.call('XADD', KEYS[4], '*', unpack(ARGV, 4))
return 'won'
"""
)


class Verdict(str, Enum):
    """The result of a claim: won, held by another, cancelled, too old a message, wait, or elsewhere.

    WAIT: ask again, since Redis may have lost data and the leader is still finding out which attempts run.
    ELSEWHERE: another installation sent the message, and only there can it be claimed.
    """

    WON = "won"
    HELD = "held"
    CANCELLED = "cancelled"
    STALE = "stale"
    WAIT = "wait"
    ELSEWHERE = "elsewhere"

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
    sender: str = "",
) -> Verdict:
    """Ask once; after a redis error the claim may or may not be ours: ask again with the same token.

    `seq` and `queue` are those of the delivered message; they show the leader how far the queue was consumed.
    `sender` is the key prefix of the installation that sent it.
    """
    if sender != connection.keys.prefix:
        log.error("%s", _ELSEWHERE.format(task_id=task_id, sender=sender, own=connection.keys.prefix))
        return Verdict.ELSEWHERE
    started = entry("started", at, {"task_id": task_id, "worker": worker, "seq": seq})
    fields = [text for pair in started.items() for text in pair]
    own = connection.keys
    keys = [own.epoch, own.claim(task_id), own.cancel(task_id), own.inbox, own.watermark(queue or ""), own.server_mark]
    number = "" if seq is None else str(seq)
    return Verdict(connection.run_script(_CLAIM, keys, [token, str(CLAIM_SECONDS), number, *fields]))
