"""The claim that every attempt needs before its first line of user code, as one Redis script.

Promises one yes per attempt: to the token that came first, and to the same token again, since a lost reply must not
lose the run. A day after its claim an attempt that was never reported counts as unknown. Never runs or reports tasks.
"""

from enum import StrEnum
from typing import Final

from scheduler_service.core.instants import Instant
from scheduler_service.core.wire import INBOX, cancel_key, claim_key, entry
from workers.connection import RedisConnection

CLAIM_SECONDS: Final = 24 * 3600

# KEYS: claim, cancel flag, inbox. ARGV: token, seconds, then the fields of the `started` entry in pairs.
# If the worker dies after this, the leader has `started` and will call the attempt lost.
_CLAIM: Final = """
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then return 'won' end
if holder then return 'held' end
if redis.call('EXISTS', KEYS[2]) == 1 then return 'cancelled' end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
redis.call('XADD', KEYS[3], '*', unpack(ARGV, 3))
return 'won'
"""


class Verdict(StrEnum):
    """What the claim says: go on, somebody else has it, or nobody wants it any more."""

    WON = "won"
    HELD = "held"
    CANCELLED = "cancelled"


def claim(
    connection: RedisConnection, task_id: str, token: str, worker: str, at: Instant, seq: int | None = None
) -> Verdict:
    """Ask once; raises redis errors, after which it may or may not be ours: ask again with the same token.

    `seq` is the number of the message that was delivered: by it the leader sees how far the queue was taken.
    """
    started = entry("started", at, {"task_id": task_id, "worker": worker, "seq": seq})
    fields = [text for pair in started.items() for text in pair]
    keys = [claim_key(task_id), cancel_key(task_id), INBOX]
    return Verdict(connection.run_script(_CLAIM, keys, [token, str(CLAIM_SECONDS), *fields]))
