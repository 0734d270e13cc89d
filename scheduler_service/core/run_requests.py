"""What callers of `POST /runs` and `POST /jobs/{id}/trigger` may say, and the new runs that it means. Pure."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from scheduler_service.core.errors import BadValue, BadValues
from scheduler_service.core.fields import (
    check_payload,
    read_list,
    read_object,
    read_overlap,
    read_priority,
    read_queue,
    read_retry,
    read_start_within,
    read_task,
    read_timeout,
)
from scheduler_service.core.identity import adhoc_run_id, manual_run_id
from scheduler_service.core.instants import SECOND, Duration, Instant, format_duration, format_instant, parse_instant
from scheduler_service.core.model import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    Job,
    NewRun,
    Overlap,
    RetryPolicy,
    Run,
    RunKind,
)
from scheduler_service.core.redaction import unmasked
from scheduler_service.core.request_keys import FIELD, older_hash, read_key, request_hash

MAX_BATCH: Final = 1000
_MOST_ERRORS: Final = 100
_LAST: Final = parse_instant("9999-12-31T23:59:59.999999Z")  # no driver reads a later time


def read_run(body: Mapping[str, Any], uuid7: str, now: Instant) -> NewRun:
    """A one-off run; BadValues with every complaint. `due_at` 0 means at once, by the database's clock."""
    errors: list[BadValue] = []
    fields = {name: _read(body, name, read, default, errors) for name, (read, default) in _RUN.items()}
    if body.get("task") is None:
        errors.append(BadValue("task", None, "this field is required"))
    _refuse_unknown(body, {*_RUN, FIELD}, errors)
    check_payload(errors, fields["args"], fields["kwargs"])
    key = _read(body, FIELD, read_key, None, errors)
    if errors:
        raise BadValues(errors)
    run_at = fields.pop("run_at")
    _check_deadline(run_at, fields["start_within"])
    return NewRun(
        run_id=adhoc_run_id(uuid7), kind=RunKind.ADHOC, scheduled_at=run_at or now, due_at=run_at or 0,
        idempotency_key=key, **_hashes(body, key), **fields,
    )  # fmt: skip


class DeadlinesOver(BadValues):
    """Runs that could only be missed; `places` says which of those that were asked for."""

    def __init__(self, over: Mapping[int, BadValue]) -> None:
        super().__init__(list(over.values()))
        self.places = tuple(over)

    def of_batch(self) -> BadValues:
        """The same errors, each named by the place of its run in the batch."""
        named = zip(self.places, self.errors, strict=True)
        return BadValues([error.under(f"runs.{place}") for place, error in named][:_MOST_ERRORS])


def refuse_over(runs: Sequence[NewRun], new: Container[str], now: Instant) -> None:
    """DeadlinesOver for the runs among `new` whose start deadline is over at `now`, the database's clock.

    Runs that an earlier request created are not judged: the same request may come again after its deadline.
    """
    over = {
        place: BadValue(
            "run_at", format_instant(run.due_at), "run_at plus start_within is over: give a later run_at, or more time"
        )
        for place, run in enumerate(runs)
        if run.start_within is not None and run.due_at and run.due_at + run.start_within <= now and run.run_id in new
    }
    if over:
        raise DeadlinesOver(over)


def _check_deadline(run_at: Instant | None, start_within: Duration | None) -> None:
    if run_at is not None and start_within is not None and run_at + start_within > _LAST:
        raise BadValue(
            "start_within", format_duration(start_within), "run_at plus start_within is after the year 9999; give less"
        )


def read_batch(body: Mapping[str, Any], ids: Callable[[], str], now: Instant) -> list[NewRun]:
    """All runs of a batch; complaints are named by the place of their run."""
    wanted = body.get("runs")
    if not isinstance(wanted, list) or not 0 < len(wanted) <= MAX_BATCH:
        raise BadValue("runs", f"{type(wanted).__name__}", f"give a list of 1 to {MAX_BATCH} runs")
    runs: list[NewRun] = []
    errors: list[BadValue] = []
    for place, item in enumerate(wanted):
        try:
            runs.append(read_run(unmasked(read_object(item, "")), ids(), now))
        except BadValues as exc:
            errors.extend(error.under(f"runs.{place}") for error in exc.errors)
        except BadValue as exc:
            errors.append(exc.under(f"runs.{place}"))
    key = _read(body, FIELD, read_key, None, errors)
    _refuse_unknown(body, {"runs", FIELD}, errors)
    if errors:
        raise BadValues(errors[:_MOST_ERRORS])
    if key is None:
        return runs
    whole = request_hash(body)
    return [_of_batch(run, key, place, whole) for place, run in enumerate(runs)]


def read_trigger(job: Job, body: Mapping[str, Any], uuid7: str, now: Instant) -> NewRun:
    """A run of the job now: its definition, `kwargs` laid over the job's, and its own `overlap` where given."""
    errors: list[BadValue] = []
    given = _read(body, "kwargs", read_object, {}, errors)
    overlap: Overlap | None = _read(body, "overlap", read_overlap, None, errors)
    key = _read(body, FIELD, read_key, None, errors)
    _refuse_unknown(body, {"kwargs", "overlap", FIELD}, errors)
    kwargs = {**job.kwargs, **given}
    check_payload(errors, list(job.args), kwargs)
    if errors:
        raise BadValues(errors)
    return NewRun(
        run_id=manual_run_id(job.job_id, uuid7), kind=RunKind.MANUAL, task=job.task, scheduled_at=now, due_at=0,
        job_id=job.job_id, job_version=job.version, args=job.args, kwargs=kwargs, queue=job.queue,
        priority=job.priority, retry=job.retry, timeout=job.timeout, overlap=overlap, start_within=job.start_within,
        idempotency_key=key, **_hashes({**body, "trigger": job.job_id}, key),
    )  # fmt: skip


def again(run: Run, uuid7: str, now: Instant) -> NewRun:
    """A new run of a final run's task, with the same arguments and policies."""
    run_id = adhoc_run_id(uuid7) if run.job_id is None else manual_run_id(run.job_id, uuid7)
    return NewRun(
        run_id=run_id, kind=RunKind.ADHOC if run.job_id is None else RunKind.MANUAL, task=run.task, scheduled_at=now,
        due_at=0, job_id=run.job_id, job_version=run.job_version, args=run.args, kwargs=run.kwargs, queue=run.queue,
        priority=run.priority, retry=run.retry, timeout=run.timeout, retry_of=run.run_id,
        start_within=None if run.start_by is None else max(SECOND, run.start_by - run.scheduled_at),
    )  # fmt: skip


def read_retried(run: Run, body: Mapping[str, Any], uuid7: str, now: Instant) -> NewRun:
    """The new run of a final one; the body may hold a key alone."""
    errors: list[BadValue] = []
    key = _read(body, FIELD, read_key, None, errors)
    _refuse_unknown(body, {FIELD}, errors)
    if errors:
        raise BadValues(errors)
    return replace(again(run, uuid7, now), idempotency_key=key, **_hashes({"retry": run.run_id}, key))


def _hashes(body: Mapping[str, Any], key: str | None) -> dict[str, Any]:
    return {} if key is None else {"request_hash": request_hash(body), "older": (None, older_hash(body))}


def _of_batch(run: NewRun, key: str, place: int, whole: str) -> NewRun:
    """A run of a batch that has a key; one with a key of its own goes by that."""
    if run.idempotency_key is not None:
        return run
    return replace(run, idempotency_key=f"{key}#{place}", request_hash=whole)


_RUN: Final[dict[str, tuple[Callable[[Any, str], Any], Any]]] = {
    "task": (read_task, ""),
    "args": (read_list, []),
    "kwargs": (read_object, {}),
    "run_at": (parse_instant, None),
    "queue": (read_queue, DEFAULT_QUEUE),
    "priority": (read_priority, DEFAULT_PRIORITY),
    "timeout": (read_timeout, None),
    "start_within": (read_start_within, None),
    "retry": (read_retry, RetryPolicy()),
}


def _read(
    body: Mapping[str, Any], name: str, read: Callable[[Any, str], Any], default: Any, errors: list[BadValue]
) -> Any:
    value = body.get(name)
    if value is None:
        return default
    try:
        return read(value, name)
    except BadValue as exc:
        errors.append(exc)
        return default


def _refuse_unknown(body: Mapping[str, Any], known: set[str], errors: list[BadValue]) -> None:
    for name in sorted(set(body) - known):
        errors.append(BadValue(name, body[name], f"this field is not known; known are {', '.join(sorted(known))}"))
