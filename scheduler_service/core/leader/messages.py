"""Inbox messages of the leader: reports of workers, requests of the API, and queries.

`decode` turns one inbox entry into a message or raises MalformedEntry with the reason; it never guesses.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.errors import BadValue, MalformedEntry
from itinerary.protocol.identity import split_task_id
from itinerary.protocol.instants import Instant, parse_instant
from itinerary.protocol.json_text import is_plain, storable_text
from itinerary.protocol.progress import PROGRESS_FIELD, Progress, read_last, read_listed
from itinerary.protocol.task_names import TASKS_FIELD, TaskNames, read_names
from itinerary.protocol.wire import ENTRY_VERSION, PROTOCOL_FIELD, RECALLS_FIELD, SINCE_FIELD, VERSION_FIELD
from scheduler_service.core.balancing.placements import RebalanceAsked, read_asked
from scheduler_service.core.leader.entry_fields import (
    MAX_NAME,
    body_of,
    error_of,
    listed,
    name,
    optional_instant,
    optional_name,
    whole,
)


@dataclass(frozen=True, slots=True)
class Started:
    """A worker claimed the attempt and proceeds to the user's code; `seq` is that of the message it received."""

    run_id: str
    attempt: int
    worker: str
    at: Instant
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The attempt succeeded; `reason` is set if it did so without a result (Celery's IGNORED)."""

    run_id: str
    attempt: int
    worker: str
    at: Instant
    started_at: Instant | None
    result: Any
    reason: str | None = None
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt ended with an error; `reason` names a cause that is not the task's own exception."""

    run_id: str
    attempt: int
    worker: str
    at: Instant
    started_at: Instant | None
    error: Mapping[str, Any]
    reason: str | None = None
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class RetryAsked:
    """The task asked for a retry at `due_at` with these arguments, as by Celery's `retry()`."""

    run_id: str
    attempt: int
    worker: str
    at: Instant
    started_at: Instant | None
    due_at: Instant
    args: list[Any] | None
    kwargs: dict[str, Any] | None
    error: Mapping[str, Any] | None
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The (run_id, attempt) pairs that one worker process runs and holds.

    `epoch` is the epoch of Redis in which the worker has resent its reports. A long list spans several entries in
    order; `part` counts them from 0. `leaving`: it is the worker's last one. `recalls`: it knows recalled messages.
    `progress`: that of running attempts, by their place in `running`. `version`, `since`: of the worker, where it says.
    `tasks`: what it knows, once a minute.
    """

    worker: str
    at: Instant
    running: tuple[tuple[str, int], ...]
    received: tuple[tuple[str, int], ...]
    concurrency: int
    queues: tuple[str, ...]
    epoch: str | None = None
    part: int = 0
    leaving: bool = False
    protocol: int = 1
    recalls: bool = False
    progress: tuple[tuple[int, Progress], ...] = ()
    version: str | None = None
    since: Instant | None = None
    tasks: TaskNames | None = None


@dataclass(frozen=True, slots=True)
class JobChanged:
    """A job was added, removed or modified; the leader reads its current definition."""

    job_id: str
    change: str


@dataclass(frozen=True, slots=True)
class ControlChanged:
    """An edit of queues is committed."""


@dataclass(frozen=True, slots=True)
class CancelRun:
    """A cancel request is committed for this run."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RunEnqueued:
    """Another process committed these runs, which may be due at once."""

    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunsMoved:
    """Another process moved these waiting runs to another queue."""

    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A client waits at `reply_to` for the leader's live state; `what`: see `core.leader.queries`."""

    what: str
    subject: str | None
    reply_to: str


Report = Started | Succeeded | Failed | RetryAsked
InboxMessage = (
    Report | Heartbeat | JobChanged | ControlChanged | CancelRun | RunEnqueued | RunsMoved | Query | RebalanceAsked
)


def decode(fields: Mapping[str, str]) -> InboxMessage:
    """Decode one inbox entry. Unknown body keys are ignored, so that newer senders are understood."""
    version = fields.get("v")
    if version != ENTRY_VERSION:
        raise MalformedEntry(f"entry version {str(version)[:20]!r} is not understood")
    kind = fields.get("type", "")
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise MalformedEntry(f"entry type {kind[:40]!r} is not known")
    text = fields.get("body", "")
    body = body_of(text)
    try:
        return decoder(body if is_plain(text) else storable_text(body), parse_instant(fields.get("at"), "at"))
    except BadValue as exc:
        raise MalformedEntry(str(exc)) from exc
    except RecursionError as exc:
        raise MalformedEntry("body is nested too deeply") from exc


def _started(body: dict[str, Any], at: Instant) -> Started:
    run_id, attempt = split_task_id(body.get("task_id"))
    seq = body.get("seq")
    if seq is not None and (isinstance(seq, bool) or not isinstance(seq, int) or not 0 <= seq < 2**63):
        raise MalformedEntry("seq must be a whole number")
    return Started(run_id, attempt, name(body, "worker"), at, seq)


def _succeeded(body: dict[str, Any], at: Instant) -> Succeeded:
    run_id, attempt = split_task_id(body.get("task_id"))
    started_at, reason = optional_instant(body, "started_at"), optional_name(body, "reason")
    progress = read_last(body.get(PROGRESS_FIELD))
    return Succeeded(run_id, attempt, name(body, "worker"), at, started_at, body.get("result"), reason, progress)


def _failed(body: dict[str, Any], at: Instant) -> Failed:
    run_id, attempt = split_task_id(body.get("task_id"))
    return Failed(
        run_id,
        attempt,
        name(body, "worker"),
        at,
        optional_instant(body, "started_at"),
        error_of(body),
        optional_name(body, "reason"),
        read_last(body.get(PROGRESS_FIELD)),
    )


def _retry(body: dict[str, Any], at: Instant) -> RetryAsked:
    run_id, attempt = split_task_id(body.get("task_id"))
    args, kwargs = body.get("args"), body.get("kwargs")
    if not (args is None or isinstance(args, list)) or not (kwargs is None or isinstance(kwargs, dict)):
        raise MalformedEntry("args must be a list and kwargs an object")
    error = error_of(body) if body.get("error") is not None else None
    due_at = parse_instant(body.get("due_at"), "due_at")
    started_at = optional_instant(body, "started_at")
    progress = read_last(body.get(PROGRESS_FIELD))
    return RetryAsked(run_id, attempt, name(body, "worker"), at, started_at, due_at, args, kwargs, error, progress)


def _heartbeat(body: dict[str, Any], at: Instant) -> Heartbeat:
    concurrency = whole(body, "concurrency", 0, below=1_000_000)
    # Workers of the previous release lack this field and report a concurrency of 0 instead.
    leaving = body.get("leaving", concurrency == 0)
    if not isinstance(leaving, bool):
        raise MalformedEntry("leaving must be true or false")
    running = tuple(split_task_id(t) for t in listed(body, "running"))
    return Heartbeat(
        name(body, "worker"),
        at,
        running,
        tuple(split_task_id(t) for t in listed(body, "received")),
        concurrency,
        tuple(listed(body, "queues")),
        optional_name(body, "generation"),
        whole(body, "part", 0, below=1_000),
        leaving,
        whole(body, PROTOCOL_FIELD, 1, below=1_000),
        body.get(RECALLS_FIELD) is True,
        tuple(read_listed(body.get(PROGRESS_FIELD), len(running))),
        optional_name(body, VERSION_FIELD),
        optional_instant(body, SINCE_FIELD),
        read_names(body.get(TASKS_FIELD)),
    )


def _job_changed(body: dict[str, Any], at: Instant) -> JobChanged:
    change = body.get("change")
    if change not in ("added", "removed", "modified"):
        raise MalformedEntry("change must be added, removed or modified")
    return JobChanged(name(body, "job_id"), change)


def _cancel_run(body: dict[str, Any], at: Instant) -> CancelRun:
    return CancelRun(name(body, "run_id"))


def _run_enqueued(body: dict[str, Any], at: Instant) -> RunEnqueued:
    return RunEnqueued(tuple(listed(body, "run_ids")))


def _runs_moved(body: dict[str, Any], at: Instant) -> RunsMoved:
    return RunsMoved(tuple(listed(body, "run_ids")))


def _query(body: dict[str, Any], at: Instant) -> Query:
    return Query(name(body, "what"), optional_name(body, "subject", 2 * MAX_NAME), name(body, "reply_to"))


_DECODERS: Final[dict[str, Callable[[dict[str, Any], Instant], InboxMessage]]] = {
    "started": _started,
    "succeeded": _succeeded,
    "failed": _failed,
    "retry": _retry,
    "heartbeat": _heartbeat,
    "job_changed": _job_changed,
    "control_changed": lambda body, at: ControlChanged(),
    "cancel_run": _cancel_run,
    "run_enqueued": _run_enqueued,
    "runs_moved": _runs_moved,
    "query": _query,
    "rebalance": lambda body, at: read_asked(body),
}
