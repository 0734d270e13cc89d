"""The names on the wire: message headers, stream fields, scripts. Scheduler and workers both read them here.

Promises that a name stays what it was in the release before: what is added is optional to read. Light on purpose:
workers import this module inside other people's applications.
"""

import json
from typing import Any, Final

from itinerary.protocol.instants import Instant, format_instant

ENTRY_VERSION: Final = "1"
# Raised by a change of messages or reports that the previous release does not understand: a service understands its own
# and the previous one. Sent in headers, heartbeats and the beacon; a message without it is of protocol 1.
PROTOCOL: Final = 1
PROTOCOL_FIELD: Final = "protocol"
# A heartbeat says with it that the worker understands the mark of a recalled message, see RECALLED.
RECALLS_FIELD: Final = "recalls"
# What a heartbeat tells of its worker: the version of this package, and when the worker started by its host's clock.
VERSION_FIELD: Final = "version"
SINCE_FIELD: Final = "since"
# Marks entries that a worker sends again, since Redis may have lost the first; they are news only if it did.
AGAIN_FIELD: Final = "again"

OWN_HEADERS: Final = "itinerary_"
HEADER_RUN_ID: Final = "itinerary_run_id"
HEADER_JOB_ID: Final = "itinerary_job_id"
HEADER_ATTEMPT: Final = "itinerary_attempt"
HEADER_SCHEDULED_AT: Final = "itinerary_scheduled_at"
HEADER_DUE_AT: Final = "itinerary_due_at"
HEADER_TERM: Final = "itinerary_term"
HEADER_SEQ: Final = "itinerary_seq"
HEADER_QUEUE: Final = "itinerary_queue"
HEADER_PROTOCOL: Final = "itinerary_protocol"
# The prefix of the sender's keys, where it has one: a worker with another one must not start the message.
HEADER_KEY_PREFIX: Final = "itinerary_key_prefix"
# Whether the service keeps the logs of attempts; one that does not would leave them in Redis.
HEADER_LOGS: Final = "itinerary_logs"
# Not ours alone: a job's field `keep_logs` becomes this header of its runs, and a run may be given it as any header.
HEADER_KEEP_LOGS: Final = "keep_logs"
# W3C's name, so that any tracing tool finds the trace in a Celery message.
HEADER_TRACE: Final = "traceparent"

HEARTBEAT_SECONDS: Final = 2
# How long the leader's beacon is valid.
BEACON_SECONDS: Final = 60
# Whether the leader's server tells it the run id; a beacon without it is of a leader that needs that.
INFO_FIELD: Final = "info"
# The queue whose list the beacon names.
SAMPLE_QUEUE: Final = "default"

WITHOUT_INFO: Final = (
    "Redis does not answer INFO: a restart is noticed only where the leader's connection breaks or data are gone, and "
    "what its memory and disk are set to is not checked; allow INFO, or set appendfsync always"
)
# The last key of each script is the mark that stands for the run id where INFO is refused. The leader renews it when
# the server may have started anew: see QUERY_EPOCH.
LUA_SERVER: Final = """
local info = redis.pcall('INFO', 'server')
local run_id = type(info) == 'string' and string.match(info, 'run_id:(%w+)')
local server = run_id or redis.call('HGET', KEYS[#KEYS], 'mark') or 'unnamed'
"""
LUA_ACCEPTED: Final = """
local accepted, bottom = string.match(redis.call('GET', KEYS[1]) or '', '^(%w+):(%d+)$')
"""
# Message numbers exceed the range in which Lua's numbers are exact.
LUA_BELOW: Final = """
local function below(a, b) return #a < #b or (#a == #b and a < b) end
"""

# KEYS: accepted epoch, current epoch, mark. ARGV: a new name; from the leader also a new tick and the last one that it
# wrote over its present connection ('' if none). Without INFO the leader renews the mark if its last tick is not there:
# its connection broke, data were lost or went back in time, or another leader wrote. Returns the current epoch, whether
# it is accepted, and the watermark.
QUERY_EPOCH: Final = (
    LUA_SERVER
    + LUA_ACCEPTED
    + """
if ARGV[2] and not run_id then
  if ARGV[3] == '' or redis.call('HGET', KEYS[3], 'tick') ~= ARGV[3] then
    server = ARGV[2]
    redis.call('HSET', KEYS[3], 'mark', server)
  end
  redis.call('HSET', KEYS[3], 'tick', ARGV[2])
end
local seen = redis.call('GET', KEYS[2])
if not seen or string.sub(seen, 1, #server + 1) ~= server .. ':' then
  seen = server .. ':' .. ARGV[1]
  redis.call('SET', KEYS[2], seen)
end
return {seen, accepted == server and 1 or 0, bottom or '0'}
"""
)

# In place of a claim: no message of this attempt up to the number behind it starts anything, later ones may claim.
RECALLED: Final = "recalled:"

_JSON: Final = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def protocol_error(workers: int, services: int) -> str | None:
    """A sentence if a worker and a service of these protocols do not understand each other; else None."""
    if workers > services:
        return f"the worker's protocol {workers} is newer than the service's {services}: upgrade leader and API first"
    if workers < services - 1:
        return f"the worker's protocol {workers} is too old for the service's {services}: upgrade the worker"
    return None


def entry(kind: str, at: Instant, body: dict[str, Any]) -> dict[str, str]:
    """The fields of one inbox entry; `body` must be plain JSON values."""
    return {
        "v": ENTRY_VERSION,
        "type": kind,
        "at": format_instant(at),
        "body": _JSON.encode(body),
    }
