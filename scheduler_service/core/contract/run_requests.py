"""Requests of `POST /runs` and `POST /jobs/{id}/trigger`, and the new runs that they create. Pure."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.field_types import Flag, read_object
from itinerary.protocol.identity import adhoc_run_id, manual_run_id
from itinerary.protocol.instants import SECOND, Duration, Instant
from itinerary.protocol.limits import RUN_LIMITS, Key, check_fair_key, lane_of, uses_of
from itinerary.protocol.redaction import unmasked
from itinerary.protocol.run_fields import check_payload
from itinerary.protocol.run_request import (
    KEY_FIELD,
    MOST_ERRORS,
    older_hash,
    over_error,
    read_each,
    read_field,
    read_key,
    read_run_request,
    refuse_unknown,
    request_hash,
)
from scheduler_service.core.contract.fields import OVERLAP
from scheduler_service.core.contract.limit_uses import limit_errors, named_limits
from scheduler_service.core.model import Job, NewRun, Overlap, Run, RunKind

# As stored by releases that ran runs again from the failures page only.
_AGAIN: Final = "retried from the failures page"


def read_run(body: Mapping[str, Any], uuid7: str, now: Instant) -> NewRun:
    """Read a one-off run; BadValues with every error. `due_at` 0 means at once, by the database's clock."""
    asked = read_run_request(body)
    return NewRun(
        run_id=adhoc_run_id(uuid7), kind=RunKind.ADHOC, task=asked.task, scheduled_at=asked.run_at or now,
        due_at=asked.run_at or 0, args=asked.args, kwargs=asked.kwargs, queue=asked.queue, priority=asked.priority,
        retry=asked.retry, timeout=asked.timeout, start_within=asked.start_within,
        must_end_within=asked.must_end_within, headers=asked.headers,
        limits=asked.limits, lane=lane_of(asked.limits, asked.fair_key), idempotency_key=asked.idempotency_key,
        **key_hashes(body, asked.idempotency_key),
    )  # fmt: skip


class RunsRefused(BadValues):
    """New runs that the database's clock or its limits refuse; `places` are their positions in the request."""

    def __init__(self, refused: Sequence[tuple[int, BadValue]]) -> None:
        super().__init__([error for _, error in refused])
        self.places = tuple(place for place, _ in refused)

    def of_batch(self) -> BadValues:
        """Return the same errors, each named by the position of its run in the batch."""
        named = zip(self.places, self.errors, strict=True)
        return BadValues([error.under(f"runs.{place}") for place, error in named][:MOST_ERRORS])


def refuse_new(runs: Sequence[NewRun], new: Container[str], now: Instant, limits: Mapping[str, bool]) -> None:
    """Raise RunsRefused for the runs among `new` that are too late at `now`, the database's clock, or whose limits err.

    `limits` says of each that exists whether it is per key. Runs that an earlier request created are not judged: the
    same request may be repeated after its deadline, and after a limit is gone.
    """
    refused: list[tuple[int, BadValue]] = []
    for place, run in enumerate(runs):
        if run.run_id in new:
            over = over_error(run.due_at, run.start_within, now)
            errors = [*([] if over is None else [over]), *limit_errors(named_limits(run), limits)]
            refused += [(place, error) for error in errors]
    if refused:
        raise RunsRefused(refused)


def read_batch(body: Mapping[str, Any], ids: Callable[[], str], now: Instant) -> list[NewRun]:
    """Read all runs of a batch; errors are named by the position of their run."""
    runs, errors = read_each(body.get("runs"), lambda run: read_run(unmasked(read_object(run, "")), ids(), now))
    key = read_field(body, KEY_FIELD, read_key, None, errors)
    refuse_unknown(body, {"runs", KEY_FIELD}, errors)
    if errors:
        raise BadValues(errors[:MOST_ERRORS])
    if key is None:
        return runs
    whole = request_hash(body)
    return [_of_batch(run, key, place, whole) for place, run in enumerate(runs)]


def read_trigger(job: Job, body: Mapping[str, Any], uuid7: str, now: Instant) -> NewRun:
    """Read a run of the job now: its definition, `kwargs` over the job's, and what else the body gives of its own."""
    errors: list[BadValue] = []
    given = read_field(body, "kwargs", read_object, {}, errors)
    overlap: Overlap | None = read_field(body, "overlap", OVERLAP.read, None, errors)
    forced: bool = read_field(body, "force", Flag().read, False, errors)
    key = read_field(body, KEY_FIELD, read_key, None, errors)
    refuse_unknown(body, {"kwargs", "overlap", "limits", "fair_key", "force", KEY_FIELD}, errors)
    limits = read_field(body, "limits", RUN_LIMITS.read, None, errors)
    fair_key = read_field(body, "fair_key", Key().read, None, errors)
    kwargs = {**job.kwargs, **given}
    check_payload(errors, list(job.args), kwargs)
    limits = job.limits if limits is None else limits
    check_fair_key(limits, fair_key, errors)
    limits, fair_key = uses_of(limits, job.fair_key if fair_key is None else fair_key, job.args, kwargs, errors)
    if errors:
        raise BadValues(errors)
    return NewRun(
        run_id=manual_run_id(job.job_id, uuid7), kind=RunKind.MANUAL, task=job.task, scheduled_at=now, due_at=0,
        job_id=job.job_id, job_version=job.version, args=job.args, kwargs=kwargs, queue=job.queue,
        priority=job.priority, retry=job.retry, timeout=job.timeout, overlap=overlap, start_within=job.start_within,
        must_end_within=job.must_end_within,
        headers=job.run_headers, limits=limits, lane=lane_of(limits, fair_key, job.job_id), forced=forced,
        idempotency_key=key, **key_hashes({**body, "trigger": job.job_id}, key),
    )  # fmt: skip


def again(run: Run, uuid7: str, now: Instant) -> NewRun:
    """Return a new run of a final run's task, with the same arguments and policies."""
    run_id = adhoc_run_id(uuid7) if run.job_id is None else manual_run_id(run.job_id, uuid7)
    return NewRun(
        run_id=run_id, kind=RunKind.ADHOC if run.job_id is None else RunKind.MANUAL, task=run.task, scheduled_at=now,
        due_at=0, job_id=run.job_id, job_version=run.job_version, args=run.args, kwargs=run.kwargs, queue=run.queue,
        priority=run.priority, retry=run.retry, timeout=run.timeout, headers=run.headers, retry_of=run.run_id,
        start_within=_within(run.start_by, run), must_end_within=_within(run.end_by, run),
        limits=run.limits, lane=run.lane or lane_of(run.limits, None, run.job_id),
    )  # fmt: skip


def _within(by: Instant | None, run: Run) -> Duration | None:
    return None if by is None else max(SECOND, by - run.scheduled_at)


def again_once(run: Run, uuid7: str, now: Instant) -> NewRun:
    """As `again`, with a key of the run's own: however often it is asked for, one run comes of it."""
    return replace(again(run, uuid7, now), idempotency_key=f"again:{run.run_id}"[:255], request_hash=_AGAIN)


def read_retried(run: Run, body: Mapping[str, Any], uuid7: str, now: Instant) -> NewRun:
    """Read the retry of a final run; the body may hold only a key."""
    errors: list[BadValue] = []
    key = read_field(body, KEY_FIELD, read_key, None, errors)
    refuse_unknown(body, {KEY_FIELD}, errors)
    if errors:
        raise BadValues(errors)
    return replace(again(run, uuid7, now), idempotency_key=key, **key_hashes({"retry": run.run_id}, key))


def key_hashes(body: Mapping[str, Any], key: str | None) -> dict[str, Any]:
    """The hashes by which a request with this key is known again; none without a key."""
    return {} if key is None else {"request_hash": request_hash(body), "older": (None, older_hash(body))}


def _of_batch(run: NewRun, key: str, place: int, whole: str) -> NewRun:
    """Add the batch's key to a run; a run's own key takes precedence."""
    if run.idempotency_key is not None:
        return run
    return replace(run, idempotency_key=f"{key}#{place}", request_hash=whole)
