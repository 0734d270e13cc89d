"""The log of one attempt for a reader: stored where it is over, sent by its worker while it runs.

Promises that a worker sends lines only to who follows the attempt. Few requests wait at a time; others are answered at
once. Changes nothing that is stored.
"""

import threading
import time
from dataclasses import dataclass, replace
from typing import Final

from itinerary.protocol.attempt_logs import Tail
from itinerary.protocol.errors import BrokerUnavailable, NotFound
from itinerary.protocol.identity import task_id
from itinerary.protocol.instants import MILLISECOND, SECOND, Duration, Instant
from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.problems import unavailable
from scheduler_service.api.routes.runs import known_run
from scheduler_service.core.model import Run
from scheduler_service.core.run_state import FINAL, IN_FLIGHT, RunState

LONGEST_WAIT: Final = 20
_AT_ONCE: Final = 8
# Between a run's end in the database and its log, which the leader stores beside it.
_COMES_WITHIN: Final[Duration] = 2 * SECOND
_ASKED_EVERY: Final[Duration] = SECOND
_PAUSE: Final = 0.1

_waiting: Final = threading.BoundedSemaphore(_AT_ONCE)


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of an attempt's log; `missing` characters before it are not kept, `complete`: nothing follows it.

    `begun`: the attempt is in flight or over.
    """

    attempt: int
    tail: Tail
    missing: int
    complete: bool
    begun: bool = True


def read_part(
    context: ApiContext, run_id: str, attempt: int | None, after: int, *, follow: bool = False, wait: Duration = 0
) -> LogPart:
    """Return what follows a position, waiting for it; NotFound for a run or attempt that is not there.

    `follow`: let the worker of a running attempt send its lines.
    """
    if wait and not _waiting.acquire(blocking=False):
        wait = 0
    elif wait:
        try:
            with context.plans.requests.waiting():
                return _awaited(context, run_id, attempt, after, follow, wait)
        finally:
            _waiting.release()
    return _awaited(context, run_id, attempt, after, follow, 0)


def _awaited(
    context: ApiContext, run_id: str, attempt: int | None, after: int, follow: bool, wait: Duration
) -> LogPart:
    until = time.monotonic() + wait / SECOND
    while True:
        run = known_run(context, run_id)
        number = _attempt(run, attempt)
        left = max(0, int((until - time.monotonic()) * SECOND))
        if number < run.attempt or run.state in FINAL:
            kept = context.stores.logs.read(run_id, number)
            if kept is not None or not _may_come(run, number, context.clock()):
                return _part(number, after, (kept or Tail("", after)).after(after), complete=True)
        elif follow and run.state in IN_FLIGHT:
            live = _live(context, task_id(run_id, number), after, min(left, _ASKED_EVERY))
            if live.text or not left:
                return _part(number, after, live, complete=False)
            continue
        if not left:
            begun = run.state in IN_FLIGHT or run.state in FINAL
            return replace(_part(number, after, Tail("", after), complete=False), begun=begun)
        time.sleep(min(_PAUSE, left / SECOND))


def _part(number: int, after: int, tail: Tail, *, complete: bool) -> LogPart:
    return LogPart(number, tail, max(0, tail.start - after), complete)


def _live(context: ApiContext, name: str, after: int, block: Duration) -> Tail:
    try:
        context.stores.live_logs.watch(name)
        return context.stores.live_logs.read(name, after, block if block >= MILLISECOND else 0)
    except BrokerUnavailable as exc:
        what = f"the lines of a running attempt come through Redis, which does not answer: {exc}"
        raise unavailable(what, "redis-away") from exc


def _attempt(run: Run, asked: int | None) -> int:
    """The attempt that is asked for, else the newest that began."""
    if asked is not None:
        if asked > run.attempt:
            raise NotFound(f"run {run.run_id} has no attempt {asked} so far: {run.attempt} is the newest")
        return asked
    begins = run.state in (RunState.SCHEDULED, RunState.RETRYING)
    return run.attempt - 1 if begins and run.attempt > 1 else run.attempt


def _may_come(run: Run, number: int, now: Instant) -> bool:
    ends = {attempt.attempt: attempt.finished_at for attempt in run.attempts} | {run.attempt: run.finished_at}
    ended_at = ends.get(number)
    return ended_at is not None and 0 <= now - ended_at < _COMES_WITHIN
