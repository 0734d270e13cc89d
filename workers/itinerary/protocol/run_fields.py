"""The fields that every run has, read one by one from JSON: their allowed values, and their errors.

Shared by the API, by jobs and by `enqueue_in`, so that all three reject the same values with the same messages.
"""

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import Any, Final

from itinerary.protocol.errors import BadValue, TooLarge
from itinerary.protocol.identity import QUEUE, TASK_RULE, is_task_name
from itinerary.protocol.instants import DAY, MINUTE, SECOND, Duration, format_duration, parse_duration
from itinerary.protocol.json_text import MOST_LEVELS, is_deep
from itinerary.protocol.typed_values import flaw, may_need_care

DEFAULT_QUEUE: Final = "default"
DEFAULT_PRIORITY: Final = 5
MAX_PAYLOAD: Final = 256 * 1024
MOST_ATTEMPTS: Final = 1000
RETRY_FIELDS: Final = frozenset({"max_attempts", "initial", "factor", "max", "jitter"})
# A queue is a Redis key of its name, beside our keys and those in which kombu keeps bindings and unacknowledged
# messages.
_TAKEN: Final = re.compile(r"itinerary:.*|_kombu\..*|unacked(_index|_mutex)?", re.DOTALL)
# JSON's escape of a NUL; an even number of backslashes before it is text that only looks like one.
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retries of a failed attempt, with capped exponential pauses; `unread` is a stored text that cannot be read."""

    max_attempts: int = 1
    initial: Duration = 5 * SECOND
    factor: float = 2.0
    max: Duration = 10 * MINUTE
    jitter: bool = True
    unread: str = ""


NO_RETRIES: Final = RetryPolicy()


def read_retry(value: Any, field: str) -> RetryPolicy:
    """A retry policy from its JSON; missing keys take their defaults."""
    body, default = (
        object_of(value, field, RETRY_FIELDS),
        RetryPolicy(),
    )
    factor = body.get("factor", default.factor)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= 100:
        raise BadValue(f"{field}.factor", factor, "give a number from 1 to 100")
    jitter = body.get("jitter", default.jitter)
    if not isinstance(jitter, bool):
        raise BadValue(f"{field}.jitter", jitter, "give true or false")
    return RetryPolicy(
        max_attempts=whole(body.get("max_attempts", 1), f"{field}.max_attempts", 1, MOST_ATTEMPTS),
        initial=duration_between(body.get("initial", "5s"), f"{field}.initial", 0, 30 * DAY),
        factor=float(factor) if factor != int(factor) else int(factor),
        max=duration_between(body.get("max", "10m"), f"{field}.max", 0, 30 * DAY),
        jitter=jitter,
    )


def retry_body(retry: RetryPolicy) -> dict[str, Any]:
    """The retry policy as JSON."""
    return {
        "max_attempts": retry.max_attempts,
        "initial": format_duration(retry.initial),
        "factor": int(retry.factor) if retry.factor == int(retry.factor) else retry.factor,
        "max": format_duration(retry.max),
        "jitter": retry.jitter,
    }


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


@lru_cache(maxsize=1_024)
def is_taken(queue: str) -> bool:
    """Whether Redis uses a queue's name for something else."""
    return _TAKEN.fullmatch(queue) is not None


def read_priority(value: Any, field: str) -> int:
    """A priority, 0 (first) to 9 (last)."""
    return whole(value, field, 0, 9)


def read_timeout(value: Any, field: str) -> int:
    """The time limit of an attempt: 1 s to 7 days."""
    return duration_between(value, field, SECOND, 7 * DAY)


def read_start_within(value: Any, field: str) -> int:
    """The time after its due time within which a run may begin: 1 s to 365 days."""
    return duration_between(value, field, SECOND, 365 * DAY)


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


def check_payload(errors: list[BadValue], args: Any, kwargs: Any) -> None:
    """Add an error if args and kwargs exceed 256 KiB of JSON, nest too deep, or cannot be stored."""
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


def object_of(value: Any, field: str, known: frozenset[str]) -> dict[str, Any]:
    """A JSON object without unknown keys."""
    body = read_object(value, field)
    for key in sorted(set(body) - known):
        raise BadValue(f"{field}.{key}", body[key], f"this field is not known; known are {', '.join(sorted(known))}")
    return body


def choice(value: Any, field: str, allowed: tuple[str, ...]) -> str:
    """One of a few texts."""
    if not isinstance(value, str) or value not in allowed:
        raise BadValue(field, value, f"choose one of {', '.join(allowed)}")
    return value


def whole(value: Any, field: str, low: int, high: int) -> int:
    """A whole number within its bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadValue(field, value, f"give a whole number from {low} to {high}")
    return value


def duration_between(value: Any, field: str, low: int, high: int) -> int:
    """A duration within its bounds, in microseconds."""
    duration = parse_duration(value, field)
    if not low <= duration <= high:
        raise BadValue(field, value, f"give a duration from {format_duration(low)} to {format_duration(high)}")
    return duration
