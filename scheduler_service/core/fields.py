"""The fields of jobs and runs, read one by one from JSON: what each may hold, and the complaint where it does not."""

import json
import re
from contextlib import suppress
from dataclasses import replace
from sys import intern
from typing import Any, Final

from scheduler_service.core.errors import BadValue, TooLarge
from scheduler_service.core.identity import QUEUE, TASK_RULE, is_task_name
from scheduler_service.core.instants import DAY, SECOND, format_duration, parse_duration
from scheduler_service.core.model import Misfire, MisfirePolicy, Overlap, RetryPolicy
from scheduler_service.core.nesting import MOST_LEVELS, is_deep
from scheduler_service.core.sendable import is_taken
from scheduler_service.core.sharing import shared
from scheduler_service.core.typed_values import flaw, may_need_care

MAX_PAYLOAD: Final = 256 * 1024
_MAX_TEXT: Final = 10_000
MISFIRE_FIELDS: Final = frozenset({"policy", "grace", "max_catch_up"})
RETRY_FIELDS: Final = frozenset({"max_attempts", "initial", "factor", "max", "jitter"})
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_OVERLAPS: Final = tuple(overlap.value for overlap in Overlap)
_MISFIRES: Final = tuple(policy.value for policy in MisfirePolicy)
MOST_ATTEMPTS: Final = 1000
# As JSON writes a NUL; an even number of backslashes before it is text that only looks like one.
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


@shared
def read_retry(value: Any, field: str) -> RetryPolicy:
    """A retry policy from its JSON; missing keys take their defaults."""
    body, default = (
        _object_of(value, field, RETRY_FIELDS),
        RetryPolicy(),
    )
    factor = body.get("factor", default.factor)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= 100:
        raise BadValue(f"{field}.factor", factor, "give a number from 1 to 100")
    jitter = body.get("jitter", default.jitter)
    if not isinstance(jitter, bool):
        raise BadValue(f"{field}.jitter", jitter, "give true or false")
    return RetryPolicy(
        max_attempts=_whole(body.get("max_attempts", 1), f"{field}.max_attempts", 1, MOST_ATTEMPTS),
        initial=_duration_between(body.get("initial", "5s"), f"{field}.initial", 0, 30 * DAY),
        factor=float(factor) if factor != int(factor) else int(factor),
        max=_duration_between(body.get("max", "10m"), f"{field}.max", 0, 30 * DAY),
        jitter=jitter,
    )


def unread_retry(text: str) -> RetryPolicy:
    """The policy of a stored text that `read_retry` refuses: what can be read of it, and the text itself.

    Without the fields that only a newer release knows it is read whole; else its attempts are, where they can be.

    A copy of the run is given the same text, so that a program which can read it still finds it.
    """
    try:
        body = json.loads(text)
        known = {name: body[name] for name in body if name in RETRY_FIELDS} if isinstance(body, dict) else {}
        if known and len(known) < len(body):
            with suppress(BadValue):
                return replace(read_retry(known, "retry"), unread=text)
        attempts = body["max_attempts"] if isinstance(body, dict) else 1
        return RetryPolicy(_whole(attempts, "max_attempts", 1, MOST_ATTEMPTS), unread=text)
    except (ValueError, KeyError, RecursionError, BadValue):
        return RetryPolicy(unread=text)


def read_task(value: Any, field: str) -> str:
    """A Celery task name."""
    if not is_task_name(value):
        raise BadValue(field, value, TASK_RULE)
    return intern(value)


def read_queue(value: Any, field: str) -> str:
    """A queue name."""
    if not isinstance(value, str) or not QUEUE.fullmatch(value):
        raise BadValue(field, value, "use letters, digits, '.', '_', ':' or '-', 128 characters at most")
    if is_taken(value):
        raise BadValue(field, value, "give it another name: Redis keeps something else under this one")
    return intern(value)


def read_priority(value: Any, field: str) -> int:
    """A priority, 0 (first) to 9 (last)."""
    return _whole(value, field, 0, 9)


def read_overlap(value: Any, field: str) -> Overlap:
    """One of the overlap policies."""
    return Overlap(_choice(value, field, _OVERLAPS))


def read_timeout(value: Any, field: str) -> int:
    """How long an attempt may run: 1 s to 7 days."""
    return _duration_between(value, field, SECOND, 7 * DAY)


def read_start_within(value: Any, field: str) -> int:
    """How long after its due time a run may begin: 1 s to 365 days."""
    return _duration_between(value, field, SECOND, 365 * DAY)


def read_list(value: Any, field: str) -> list[Any]:
    """Positional arguments."""
    if not isinstance(value, list):
        raise BadValue(field, value, "give a JSON list")
    return value


def read_object(value: Any, field: str) -> dict[str, Any]:
    """Keyword arguments."""
    if not isinstance(value, dict):
        raise BadValue(field, value, "give a JSON object")
    return value


def read_text(value: Any, field: str) -> str:
    """Free text that every database can keep."""
    if not isinstance(value, str) or len(value) > _MAX_TEXT or not _storable(value):
        raise BadValue(field, value, f"give a text of at most {_MAX_TEXT} characters without NUL")
    return value


def check_payload(errors: list[BadValue], args: Any, kwargs: Any) -> None:
    """Complain where args and kwargs together are over 256 KiB of JSON, nest too deep, or hold what cannot be kept."""
    if not args and not kwargs:
        return
    try:
        text = json.dumps([args, kwargs], allow_nan=False, ensure_ascii=False)
        size = len(text.encode("utf-8"))
    except (ValueError, TypeError, RecursionError, UnicodeEncodeError) as exc:
        errors.append(BadValue("args", "...", f"args and kwargs must be plain JSON ({str(exc)[:80]})"))
        return
    if is_deep(text):
        errors.append(BadValue("args", "...", f"args and kwargs may nest {MOST_LEVELS} levels deep"))
    elif may_need_care(text):
        parts = {"args": args, "kwargs": kwargs}.items()
        errors.extend(BadValue(field, None, wrong) for field, part in parts if (wrong := flaw(part)) is not None)
    if _NUL.search(text):
        errors.append(BadValue("args", "...", "args and kwargs must hold no NUL character"))
    if size > MAX_PAYLOAD:
        errors.append(TooLarge("args", f"{size} bytes", "args and kwargs together may have 262144 bytes of JSON"))


def _object_of(value: Any, field: str, known: frozenset[str]) -> dict[str, Any]:
    body = read_object(value, field)
    for key in sorted(set(body) - known):
        raise BadValue(f"{field}.{key}", body[key], f"this field is not known; known are {', '.join(sorted(known))}")
    return body


@shared
def read_misfire(value: Any, field: str) -> Misfire:
    """A misfire policy from its JSON; missing keys take their defaults."""
    body = _object_of(value, field, MISFIRE_FIELDS)
    policy = _choice(body.get("policy", "fire_once"), f"{field}.policy", _MISFIRES)
    return Misfire(
        policy=MisfirePolicy(policy),
        grace=_duration_between(body.get("grace", "30s"), f"{field}.grace", 0, 365 * DAY),
        max_catch_up=_whole(body.get("max_catch_up", 100), f"{field}.max_catch_up", 1, 10_000),
    )


def _choice(value: Any, field: str, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise BadValue(field, value, f"choose one of {', '.join(allowed)}")
    return value


def _whole(value: Any, field: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadValue(field, value, f"give a whole number from {low} to {high}")
    return value


def _duration_between(value: Any, field: str, low: int, high: int) -> int:
    duration = parse_duration(value, field)
    if not low <= duration <= high:
        raise BadValue(field, value, f"give a duration from {format_duration(low)} to {format_duration(high)}")
    return duration


def read_jitter(value: Any, field: str) -> int:
    """How far releases are spread: nothing to a day."""
    return _duration_between(value, field, 0, DAY)


def read_tags(value: Any, field: str) -> tuple[str, ...]:
    """Tags, each once, in their order."""
    if not isinstance(value, list) or len(value) > 50:
        raise BadValue(field, value, "give a list of at most 50 texts")
    for tag in value:
        if not isinstance(tag, str) or not 0 < len(tag) <= 100 or not _storable(tag):
            raise BadValue(field, tag, "a tag is a text of 1 to 100 characters")
    return tuple(dict.fromkeys(value))


def _storable(text: str) -> bool:
    return _UNSTORABLE.search(text) is None
