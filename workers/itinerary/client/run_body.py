"""The JSON of a requested run, from what a Python program has: tasks, signatures, datetimes, UUIDs, Decimals.

Light: knows Celery's tasks and signatures by their attributes.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from math import isfinite
from typing import Any, Final, Protocol

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import format_duration
from itinerary.protocol.json_text import MOST_LEVELS
from itinerary.protocol.message_headers import SHADOW
from itinerary.protocol.run_fields import HEADERS
from itinerary.protocol.typed_values import from_python


class Enqueueable(Protocol):
    """A Celery task, or a signature of one."""

    @property
    def apply_async(self) -> Any:
        """Marks what Celery can send."""


Task = str | Enqueueable
Moment = str | datetime
Duration = str | timedelta
_KNOWN_OPTIONS: Final = ("queue", "priority", "eta", "countdown", "headers", "shadow", "task_id")


def run_body(task: Any, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, **fields: Any) -> dict[str, Any]:
    """The fields that are given, as JSON; BadValues for a value that has no JSON.

    `task` is a name, a Celery task or a signature; a signature's arguments come before `args`, its options where no
    field says otherwise. Its headers and those of the field are joined.
    """
    name, options = task, dict[str, Any]()
    if not isinstance(task, str):
        name, args, kwargs, options = _called(task, args, kwargs)
    given = _given(fields)
    if isinstance(given.get("headers"), Mapping) and isinstance(options.get("headers"), Mapping):
        given["headers"] = {**options["headers"], **given["headers"]}
    body = {"task": name, "args": args, "kwargs": kwargs, **options, **given}
    errors: list[BadValue] = []
    found = {key: _read(key, value, errors) for key, value in body.items() if value is not None}
    if errors:
        raise BadValues(errors)
    return found


def listed_body(run: Any) -> dict[str, Any]:
    """`run_body` of one run in a list, which is given as a dictionary of its fields."""
    if not isinstance(run, Mapping) or not all(isinstance(name, str) for name in run):
        raise BadValues([BadValue("", run, "give the fields of a run as a dictionary")])
    fields = {"task": "", "args": None, "kwargs": None, **run}
    body = run_body(fields.pop("task"), fields.pop("args"), fields.pop("kwargs"), **fields)
    if "task" not in run:
        del body["task"]  # so that it is refused as missing, with every other error
    return body


def changed_body(changes: Any) -> dict[str, Any]:
    """The changes of a run as JSON; a field given as None stays null."""
    whole = listed_body(changes)
    return {**whole, **{name: None for name, value in changes.items() if value is None}}


def _read(key: str, value: Any, errors: list[BadValue]) -> Any:
    try:
        return _READ.get(key, stored)(value, key)
    except BadValues as exc:
        errors.extend(exc.errors)
    except BadValue as exc:
        errors.append(exc)
    except RecursionError:
        errors.append(BadValue(key, "...", f"a value may nest {MOST_LEVELS} levels deep, and not contain itself"))
    return None


def _called(task: Any, args: Any, kwargs: Any) -> tuple[str, list[Any], dict[str, Any], dict[str, Any]]:
    """Name, arguments and options of a Celery task or signature."""
    if not callable(getattr(task, "apply_async", None)):
        raise BadValues([BadValue("task", type(task).__name__, "give a task's name, a Celery task or its signature")])
    if not isinstance(task, Mapping):
        return task.name, list(args or ()), dict(kwargs or {}), {}
    if task.get("subtask_type"):
        advice = "a chain, group or chord is several tasks: enqueue a task that starts it"
        raise BadValues([BadValue("task", task["task"], advice)])
    options = _given(task.get("options") or {})
    if unknown := sorted(set(options) - set(_KNOWN_OPTIONS)):
        advice = f"a run has no such option; it has {', '.join(_KNOWN_OPTIONS[:-1])}"
        raise BadValues([BadValue(f"task.options.{unknown[0]}", options[unknown[0]], advice)])
    if task.get("immutable"):
        _refuse_more(args, kwargs)
    fields: dict[str, Any] = {name: options[name] for name in ("queue", "priority", "headers") if name in options}
    if "shadow" in options and isinstance(fields.get("headers", {}), Mapping):
        fields["headers"] = {**fields.get("headers", {}), SHADOW: options["shadow"]}
    if (countdown := options.get("countdown")) is not None:
        fields["run_at"] = _after(countdown)
    elif options.get("eta") is not None:
        fields["run_at"] = options["eta"]
    whole = [*(task.get("args") or ()), *(args or ())]
    return task["task"], whole, {**(task.get("kwargs") or {}), **(kwargs or {})}, fields


def _refuse_more(args: Any, kwargs: Any) -> None:
    """Refuse arguments beside a signature that takes no more: Celery would leave them out."""
    more = {f"args.{number}": value for number, value in enumerate(args or ())}
    more |= {f"kwargs.{name}": value for name, value in (kwargs or {}).items()}
    if more:
        advice = "the signature is immutable (.si()) and takes no more arguments; give it all of them, or use .s()"
        raise BadValues([BadValue(name, value, advice) for name, value in more.items()])


def _after(countdown: Any) -> datetime:
    try:
        return datetime.now(timezone.utc) + timedelta(seconds=float(countdown))
    except (TypeError, ValueError, OverflowError):
        raise BadValues([BadValue("task.options.countdown", countdown, "give seconds from now")]) from None


def stored(value: Any, field: str) -> Any:
    """The value as a run stores it: JSON, with the types that JSON lacks marked; BadValues for any other type."""
    if isinstance(value, float) and not isfinite(value):
        raise BadValues([BadValue(field, value, "JSON has no such number")])
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str | int):
                raise BadValues([BadValue(field, key, "a key must be a text")])
        return {key: stored(one, f"{field}.{key}") for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [stored(one, f"{field}.{number}") for number, one in enumerate(value)]
    try:
        return from_python(value, _refuse)
    except TypeError:
        kind = type(value).__name__
        advice = f"{kind} has no JSON; give JSON, datetime, date, time, Decimal, UUID or bytes"
        raise BadValues([BadValue(field, value, advice)]) from None


def moment_text(value: Any, field: str) -> Any:
    """An instant as its text; BadValue for a datetime without a zone."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, datetime):
        raise BadValue(field, value, "give a datetime with a zone, or an RFC 3339 text")
    if value.tzinfo is None:
        raise BadValue(field, value.isoformat(), "give a datetime with a zone; without one it names no instant")
    try:
        return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    except OverflowError:
        raise BadValue(field, value.isoformat(), "give an instant of the years 1 to 9999 in UTC") from None


def duration_text(value: Any, field: str) -> Any:
    """A duration as its text."""
    return format_duration(value // timedelta(microseconds=1)) if isinstance(value, timedelta) else value


def _retry(value: Any, field: str) -> Any:
    """The policy of retries, whose pauses are durations."""
    whole = {name: duration_text(one, name) for name, one in value.items()} if isinstance(value, Mapping) else value
    return stored(whole, field)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _refuse(value: Any) -> Any:
    raise TypeError(type(value).__name__)


_READ: Final[dict[str, Callable[[Any, str], Any]]] = {
    "headers": lambda value, field: HEADERS.read(dict(value) if isinstance(value, Mapping) else value, field),
    "run_at": moment_text,
    "timeout": duration_text,
    "start_within": duration_text,
    "must_end_within": duration_text,
    "retry": _retry,
}
