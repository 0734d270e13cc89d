"""A worker's reports to the leader, and how their arrival is ensured.

Promises one terminal report per attempt in the stream. The worker's main process writes it while the pool takes the
next task, and writes those of killed children. The same script also writes a result key, which outlives a trimmed
stream. While Redis is away, the process that created a report holds it, and its slot stays taken. Heartbeats list an
attempt until its report is written. If we die before, the leader declares it lost. Never decides what becomes of a run.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.attempt_logs import LONGEST_PACKED, PackedLog
from itinerary.protocol.instants import SECOND, Instant, format_instant
from itinerary.protocol.keys import Keys
from itinerary.protocol.wire import AGAIN_FIELD, entry
from itinerary.worker.claim import CLAIM_SECONDS
from itinerary.worker.connection import RedisConnection
from itinerary.worker.hiding import AS_IT_IS, Hide
from itinerary.worker.plain import plain_error, plain_result

ANY_TOKEN: Final = "*"
# Longer than a worker may hold another message of the attempt, behind a rate limit or in its queue.
_DONE_SECONDS: Final = 7 * 24 * 3600

# All logs that wait for a leader at a time, measured once for so many; and how long one may.
_LOGS_BYTES: Final = 32 * 1024 * 1024
_MEASURED_EVERY: Final = 64
_LOGS_SECONDS: Final = 24 * 3600

# KEYS: claim, result, inbox, logs. ARGV: token, whether it claimed, seconds of the result, whether it is sent again, v,
# type, at, body, the field for "again", seconds of the claim; where there is a log: it, its end, the task id, how many
# of the longest logs may wait, how long, how many bytes of all, and at which numbers they are measured. A server that
# does not measure keeps as many as surely fit. A log that Redis refuses stops no report. A claim that reads `done` was
# reported: the second sender (a lost reply, a killed child, a main process that repeats its reports) sends nothing. A
# won claim that is gone means that Redis lost data, or that the leader has given the attempt up; the report is true.
REPORT: Final = """
local holder = redis.call('GET', KEYS[1])
if holder == 'done' then return 0 end
if ARGV[1] ~= '*' and holder ~= ARGV[1] and (holder or ARGV[2] ~= '1') then return 0 end
local fields = {'v', ARGV[5], 'type', ARGV[6], 'at', ARGV[7], 'body', ARGV[8]}
if ARGV[4] == '1' then
  redis.call('XADD', KEYS[3], '*', ARGV[9], '1', unpack(fields))
else
  redis.call('XADD', KEYS[3], '*', unpack(fields))
  redis.call('HSET', KEYS[2], unpack(fields))
  redis.call('EXPIRE', KEYS[2], ARGV[3])
end
redis.call('SET', KEYS[1], 'done', 'EX', ARGV[10])
if ARGV[11] then
  local waiting = redis.pcall('XLEN', KEYS[4])
  local few, kept = tonumber(ARGV[14]), 0
  if type(waiting) ~= 'number' or waiting <= few or waiting % ARGV[17] ~= 0 then
    kept = 1e9
  else
    local used = redis.pcall('MEMORY', 'USAGE', KEYS[4], 'SAMPLES', '0')
    kept = type(used) == 'number' and math.max(few, math.floor(waiting * ARGV[16] / used)) or few
  end
  redis.pcall('XADD', KEYS[4], 'MAXLEN', '~', kept, '*', 'task_id', ARGV[13], 'end', ARGV[12], 'log', ARGV[11])
  redis.pcall('EXPIRE', KEYS[4], ARGV[15])
end
return 1
"""


@dataclass(frozen=True, slots=True)
class Report:
    """The end of one attempt, ready to be sent."""

    task_id: str
    kind: str
    at: Instant
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReportBuilder:
    """A builder of reports: of this attempt, by this worker, since this start; `hide` removes secrets from texts."""

    task_id: str
    worker: str
    started_at: Instant | None
    hide: Hide = AS_IT_IS

    def succeeded(self, result: object, reason: str | None = None) -> Report:
        """The report of an attempt that returned `result`."""
        return self._report("succeeded", {"result": plain_result(result, self.hide), "reason": reason})

    def failed(self, exc: BaseException, reason: str | None = None) -> Report:
        """The report of an attempt that raised `exc`; `reason` names a cause other than the task's own error."""
        return self._report("failed", {"error": plain_error(exc, self.hide), "reason": reason})

    def retry(
        self,
        due_at: Instant,
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
        retries: int,
        exc: BaseException | None,
    ) -> Report:
        """The report of an attempt that asked for a retry at `due_at`; arguments are None if they stay the same."""
        return self._report(
            "retry",
            {
                "due_at": format_instant(due_at),
                "args": args,
                "kwargs": kwargs,
                "retries": retries,
                "error": None if exc is None else plain_error(exc, self.hide),
            },
        )

    def _report(self, kind: str, details: Mapping[str, Any]) -> Report:
        started_at = None if self.started_at is None else format_instant(self.started_at)
        body = {"task_id": self.task_id, "worker": self.worker, "started_at": started_at, **details}
        return Report(self.task_id, kind, clock(), body)


def send(
    connection: RedisConnection,
    report: Report,
    token: str,
    claimed: bool,
    again: bool = False,
    log: PackedLog | None = None,
) -> bool:
    """Send once; False if the attempt was reported before or is another's. May be repeated after redis errors.

    `again`: it was sent before, to a Redis that may have lost it; the leader ignores it if it is not new. A `log` goes
    with it, into a stream of its own.
    """
    keys, args = arguments(connection.keys, report, token, claimed, again, log)
    return bool(connection.run_script(REPORT, keys, args))


def arguments(
    own: Keys, report: Report, token: str, claimed: bool, again: bool = False, log: PackedLog | None = None
) -> tuple[list[str], list[str]]:
    """The keys and arguments with which the script sends this."""
    fields = entry(report.kind, report.at, dict(report.body))
    keys = [own.claim(report.task_id), own.result(report.task_id), own.inbox, own.logs]
    flags = [token, "1" if claimed else "0", str(CLAIM_SECONDS), "1" if again else "0"]
    args = [*flags, *fields.values(), AGAIN_FIELD, str(_DONE_SECONDS)]
    if log is not None:
        few = _LOGS_BYTES // LONGEST_PACKED
        args += [log.text, str(log.end), report.task_id, str(few), str(_LOGS_SECONDS)]
        args += [str(_LOGS_BYTES), str(_MEASURED_EVERY)]
    return keys, args


def is_reported(connection: RedisConnection, task_id: str) -> bool:
    """Whether the end of this attempt was reported already."""
    return bool(connection.client.get(connection.keys.claim(task_id)) == "done")


def clock() -> Instant:
    """This host's time; the leader's decisions never depend on it."""
    return int(time.time() * SECOND)
