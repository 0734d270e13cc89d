"""Requests of `POST /runs/{id}/again`: a run's task once more, with changes. Pure.

Promises that a field that is not given is the earlier run's, with its hidden values. A mask is never taken for a value:
it stands for the stored one, as long as the task is the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.instants import Instant
from itinerary.protocol.redaction import redacted, unmasked
from itinerary.protocol.run_fields import RUN_FIELDS, check_payload
from itinerary.protocol.run_request import (
    KEY_FIELD,
    MOST_ERRORS,
    RunRequest,
    check_deadline,
    read_field,
    read_fields,
    read_key,
    refuse_unknown,
)
from scheduler_service.core.contract.run_requests import again, key_hashes
from scheduler_service.core.model import NewRun, Run, RunKind

COPIED: Final = frozenset({"limits", "fair_key"})
CHANGEABLE: Final = tuple(name for name in RUN_FIELDS if name not in COPIED)
_HIDING: Final = ("args", "kwargs", "headers")


def read_again(run: Run, body: Mapping[str, Any], uuid7: str, now: Instant) -> NewRun:
    """Read a one-off run of the run's task, with what the body changes; null resets a field to its default.

    BadValues with every error.
    """
    given = _with_stored(run, body)
    errors: list[BadValue] = []
    fields = read_fields(given, {name: RUN_FIELDS[name].read for name in CHANGEABLE}, errors)
    if "task" in body and body["task"] is None:
        errors.append(BadValue("task", None, "give the name of a task, or leave the field out"))
    key = read_field(given, KEY_FIELD, read_key, None, errors)
    refuse_unknown(given, {*CHANGEABLE, KEY_FIELD}, errors)
    defaults = RunRequest(run.task)
    fields = {name: getattr(defaults, name) for name in CHANGEABLE if name in given} | fields
    run_at: Instant | None = fields.pop("run_at", None)
    new = replace(
        again(run, uuid7, now), run_id=adhoc_run_id(uuid7), kind=RunKind.ADHOC, job_id=None, job_version=None, **fields,
        scheduled_at=run_at or now, due_at=run_at or 0, idempotency_key=key,
        **key_hashes({**body, "again": run.run_id}, key),
    )  # fmt: skip
    check_payload(errors, new.args, new.kwargs)
    if errors:
        raise BadValues(errors[:MOST_ERRORS])
    for name in ("start_within", "must_end_within"):
        check_deadline(name, run_at, getattr(new, name))
    return new


def _with_stored(run: Run, body: Mapping[str, Any]) -> dict[str, Any]:
    """The body with stored values in place of masks; another task gets no hidden value that was not given to it."""
    if body.get("task") in (None, run.task):
        return unmasked(body, list(run.args), run.kwargs, run.headers)
    shown = {name: redacted(getattr(run, name)) for name in _HIDING}
    hiding = {name: value for name, value in shown.items() if value is not getattr(run, name)}
    return unmasked({**hiding, **body})
