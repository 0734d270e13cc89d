"""The names on the wire: Redis keys, message headers, stream fields. Scheduler and workers both read them here.

Light on purpose: workers import this module inside other people's applications.
"""

import json
from typing import Any, Final

from itinerary.protocol.instants import Instant, format_instant

INBOX: Final = "itinerary:inbox"
INBOX_DEAD: Final = "itinerary:inbox:dead"
ENTRY_VERSION: Final = "1"
# Raised by a change of messages or reports that the release before does not understand: a service understands its own
# and the one before. In headers, heartbeats and the beacon; what names none is of protocol 1.
PROTOCOL: Final = 1
PROTOCOL_FIELD: Final = "protocol"
# Stands in entries that a worker sends once more, since Redis may have lost the first: no news where it has not.
AGAIN_FIELD: Final = "again"

HEADER_RUN_ID: Final = "itinerary_run_id"
HEADER_JOB_ID: Final = "itinerary_job_id"
HEADER_ATTEMPT: Final = "itinerary_attempt"
HEADER_SCHEDULED_AT: Final = "itinerary_scheduled_at"
HEADER_DUE_AT: Final = "itinerary_due_at"
HEADER_TERM: Final = "itinerary_term"
HEADER_SEQ: Final = "itinerary_seq"
HEADER_QUEUE: Final = "itinerary_queue"
HEADER_PROTOCOL: Final = "itinerary_protocol"
# W3C's own name: what looks for a trace in a Celery message finds it.
HEADER_TRACE: Final = "traceparent"

# Which data these are: the generation that the leader has accepted ("run id of the server:floor of all queues"), the
# one that is there ("run id:a name of its own", written by whoever looks first), and the same of the broker's Redis.
EPOCH: Final = "itinerary:generation"
EPOCH_SEEN: Final = "itinerary:generation:seen"
EPOCH_OF_BROKER: Final = "itinerary:generation:broker"
# The queues whose low watermark is above that of all queues, so that it is kept for itself.
WATERMARKS: Final = "itinerary:floors"
HEARTBEAT_SECONDS: Final = 2

# What the leader says of itself, for a minute each time: workers compare their broker with its own. In that broker
# stands a mark beside the queues, by which the same server, database and prefix are known, whatever they are called.
BEACON: Final = "itinerary:beacon"
BEACON_SECONDS: Final = 60
BROKER_MARK: Final = "itinerary:broker"
# The same beside inbox and claims; the leader records both in the database, for whoever has other settings.
REDIS_MARK: Final = "itinerary:redis"
# The queue of which the beacon names the list.
SAMPLE_QUEUE: Final = "default"

# A Redis that does not tell its run id is known by its data alone: a restart that kept them goes unnoticed.
LUA_SERVER: Final = """
local server = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or 'unnamed'
"""
LUA_ACCEPTED: Final = """
local accepted, bottom = string.match(redis.call('GET', KEYS[1]) or '', '^(%w+):(%d+)$')
"""
# Numbers of messages are longer than Lua's own numbers are exact.
LUA_BELOW: Final = """
local function below(a, b) return #a < #b or (#a == #b and a < b) end
"""

# KEYS: generation, generation seen. ARGV: a new name. Returns what is there, whether it is accepted, and the floor.
QUERY_EPOCH: Final = (
    LUA_SERVER
    + LUA_ACCEPTED
    + """
local seen = redis.call('GET', KEYS[2])
if not seen or string.sub(seen, 1, #server + 1) ~= server .. ':' then
  seen = server .. ':' .. ARGV[1]
  redis.call('SET', KEYS[2], seen)
end
return {seen, accepted == server and 1 or 0, bottom or '0'}
"""
)


_JSON: Final = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def protocol_error(workers: int, services: int) -> str | None:
    """A sentence where a worker of this protocol and a service of that one do not understand each other."""
    if workers > services:
        return f"the worker's protocol {workers} is newer than the service's {services}: upgrade leader and API first"
    if workers < services - 1:
        return f"the worker's protocol {workers} is too old for the service's {services}: upgrade the worker"
    return None


def claim_key(task_id: str) -> str:
    """Holds the token of whoever claimed this attempt."""
    return f"itinerary:claim:{task_id}"


def cancel_key(task_id: str) -> str:
    """Present while this attempt is not wanted any more: refused at the claim, seen by `cancelled()`."""
    return f"itinerary:cancel:{task_id}"


def watermark_key(queue: str) -> str:
    """The lowest number of a message of this queue that may still start something."""
    return f"itinerary:floor:{queue}"


def result_key(task_id: str) -> str:
    """Holds the terminal report of this attempt until the leader has committed it."""
    return f"itinerary:result:{task_id}"


def reply_key(name: str) -> str:
    """The list on which one asker waits for the leader's answer."""
    return f"itinerary:reply:{name}"


def entry(kind: str, at: Instant, body: dict[str, Any]) -> dict[str, str]:
    """The fields of one inbox entry; `body` must be plain JSON values."""
    return {
        "v": ENTRY_VERSION,
        "type": kind,
        "at": format_instant(at),
        "body": _JSON.encode(body),
    }
