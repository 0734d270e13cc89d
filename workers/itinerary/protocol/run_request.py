"""A request for a one-off run: the fields of `POST /runs` and `enqueue_in`, and when two requests are the same. Pure.

Promises that a request means the same run, and has the same hash, whichever way it comes.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import (
    Duration,
    Instant,
    format_duration,
    format_instant,
    parse_duration,
    parse_instant,
)
from itinerary.protocol.limits import RUN_LIMITS, LimitUse, check_fair_key
from itinerary.protocol.run_fields import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    NO_RETRIES,
    RUN_FIELDS,
    RetryPolicy,
    check_payload,
)

T = TypeVar("T")
Reader = Callable[[Any, str], Any]
KEY_FIELD: Final = "idempotency_key"
MAX_BATCH: Final = 1000
MOST_ERRORS: Final = 100
_LONGEST_KEY: Final = 255
_LAST: Final = parse_instant("9999-12-31T23:59:59.999999Z")  # drivers cannot read a later time


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A requested one-off run; without `run_at` it is due at once."""

    task: str
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, Any] | None = None
    run_at: Instant | None = None
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    timeout: Duration | None = None
    start_within: Duration | None = None
    must_end_within: Duration | None = None
    retry: RetryPolicy = NO_RETRIES
    limits: tuple[LimitUse, ...] = ()
    fair_key: str | None = None
    idempotency_key: str | None = None
    request_hash: str | None = None


_READERS: Final[dict[str, Reader]] = {name: of.read for name, of in RUN_FIELDS.items()}


def read_run_request(body: Mapping[str, Any]) -> RunRequest:
    """A request from its JSON; BadValues with every error."""
    errors: list[BadValue] = []
    fields = read_fields(body, _READERS, errors)
    if body.get("task") is None:
        errors.append(BadValue("task", None, "this field is required"))
    refuse_unknown(body, {*RUN_FIELDS, KEY_FIELD}, errors)
    check_payload(errors, fields.get("args"), fields.get("kwargs"))
    check_fair_key(fields.get("limits", ()), fields.get("fair_key"), errors)
    key = read_field(body, KEY_FIELD, read_key, None, errors)
    if errors:
        raise BadValues(errors)
    run = RunRequest(**fields, idempotency_key=key, request_hash=None if key is None else request_hash(body))
    for name in ("start_within", "must_end_within"):
        check_deadline(name, run.run_at, getattr(run, name))
    return run


def read_each(runs: Any, read: Callable[[Any], T]) -> tuple[list[T], list[BadValue]]:
    """The runs of a batch, each read, and every error under the place of its run; BadValue for another list."""
    if not isinstance(runs, list) or not 0 < len(runs) <= MAX_BATCH:
        given = f"a list of {len(runs)}" if isinstance(runs, list) else type(runs).__name__
        raise BadValue("runs", given, f"give a list of 1 to {MAX_BATCH} runs")
    found: list[T] = []
    errors: list[BadValue] = []
    for place, run in enumerate(runs):
        try:
            found.append(read(run))
        except BadValues as exc:
            errors.extend(error.under(f"runs.{place}") for error in exc.errors)
        except BadValue as exc:
            errors.append(exc.under(f"runs.{place}"))
    return found, errors


def over_error(run_at: Instant | None, start_within: Duration | None, now: Instant) -> BadValue | None:
    """The error where the start deadline is over at `now`, the database's clock; None where there is time left."""
    if not run_at or start_within is None or run_at + start_within > now:
        return None
    return BadValue(
        "run_at", format_instant(run_at), "run_at plus start_within is over: give a later run_at, or more time"
    )


def read_key(value: Any, field: str = KEY_FIELD) -> str:
    """The idempotency key of a request."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_KEY or not value.isprintable():
        raise BadValue(field, value, f"give a text of 1 to {_LONGEST_KEY} printable characters")
    return value


def request_hash(body: Mapping[str, Any]) -> str:
    """A hash of the request that ignores order, spellings of instants and durations, and nulls."""
    given = _given(body)
    return hash_of({**given, **_canonical(given)})


def older_hash(body: Mapping[str, Any]) -> str:
    """The hash that an older release stored for the request: that of the texts as written."""
    return hash_of(_given(body))


def hash_of(body: Mapping[str, Any]) -> str:
    """The SHA-256 of JSON, in hexadecimal digits."""
    text = json.dumps(body, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_fields(body: Mapping[str, Any], readers: Mapping[str, Reader], errors: list[BadValue]) -> dict[str, Any]:
    """The values of the fields that are given, null being none; a refused one is left out and its error added."""
    values: dict[str, Any] = {}
    for name, read in readers.items():
        value = body.get(name)
        if value is not None:
            try:
                values[name] = read(value, name)
            except BadValue as exc:
                errors.append(exc)
    return values


def read_field(body: Mapping[str, Any], name: str, read: Reader, default: Any, errors: list[BadValue]) -> Any:
    """The field's value, or the default where it is absent, null or refused; a refusal is added to the errors."""
    value = body.get(name)
    if value is None:
        return default
    try:
        return read(value, name)
    except BadValue as exc:
        errors.append(exc)
        return default


def refuse_unknown(body: Mapping[str, Any], known: Set[str], errors: list[BadValue]) -> None:
    """Add an error for each unknown field."""
    for name in sorted(body.keys() - known):
        errors.append(BadValue(name, body[name], f"this field is not known; known are {', '.join(sorted(known))}"))


def check_deadline(name: str, run_at: Instant | None, within: Duration | None) -> None:
    """Refuse an instant so long after `run_at` that it cannot be stored."""
    if run_at is not None and within is not None and run_at + within > _LAST:
        raise BadValue(name, format_duration(within), f"run_at plus {name} is after the year 9999; give less")


def _given(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if value is not None and key != KEY_FIELD}


def _canonical(given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "run_at" in given:
        found["run_at"] = format_instant(parse_instant(given["run_at"]))
    if "timeout" in given:
        found["timeout"] = format_duration(parse_duration(given["timeout"]))
    retry = given.get("retry")
    if isinstance(retry, Mapping):
        durations = {name: format_duration(parse_duration(retry[name])) for name in ("initial", "max") if name in retry}
        found["retry"] = {**retry, **durations}
    if "limits" in given:
        found["limits"] = RUN_LIMITS.write(RUN_LIMITS.read(given["limits"], "limits"))
    return found
