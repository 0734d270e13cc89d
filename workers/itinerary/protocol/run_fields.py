"""The fields that every run has: the JSON type of each, with its bounds.

Shared by the API, by jobs and by `enqueue_in`, so that all three reject the same values with the same messages.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import Any, Final

from itinerary.protocol.errors import BadValue, TooLarge
from itinerary.protocol.field_types import (
    FieldType,
    Flag,
    Group,
    Number,
    Plain,
    Span,
    Time,
    Whole,
    read_list,
    read_object,
)
from itinerary.protocol.identity import QUEUE as QUEUE_NAME
from itinerary.protocol.identity import TASK_RULE, is_task_name
from itinerary.protocol.instants import DAY, MINUTE, SECOND, Duration
from itinerary.protocol.json_text import MOST_LEVELS, is_deep
from itinerary.protocol.limits import RUN_LIMITS, Key
from itinerary.protocol.message_headers import Headers
from itinerary.protocol.typed_values import flaw, may_need_care

DEFAULT_QUEUE: Final = "default"
DEFAULT_PRIORITY: Final = 5
MAX_PAYLOAD: Final = 256 * 1024
MOST_ATTEMPTS: Final = 1000
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


def read_task(value: Any, field: str) -> str:
    """A Celery task name."""
    if not is_task_name(value):
        raise BadValue(field, value, TASK_RULE)
    return intern(value)


def read_queue(value: Any, field: str) -> str:
    """A queue name."""
    if not isinstance(value, str) or not QUEUE_NAME.fullmatch(value):
        raise BadValue(field, value, "use letters, digits, '.', '_', ':' or '-', 128 characters at most")
    if is_taken(value):
        raise BadValue(field, value, "give it another name: Redis keeps something else under this one")
    return intern(value)


@lru_cache(maxsize=1_024)
def is_taken(queue: str) -> bool:
    """Whether Redis uses a queue's name for something else."""
    return _TAKEN.fullmatch(queue) is not None


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


TASK: Final = Plain(read_task, str)
ARGS: Final = Plain(read_list, list)
KWARGS: Final = Plain(read_object, dict)
QUEUE: Final = Plain(read_queue, str)
HEADERS: Final = Headers()
RETRY: Final = Group(
    RetryPolicy,
    {
        "max_attempts": Whole(1, MOST_ATTEMPTS), "initial": Span(0, 30 * DAY), "factor": Number(1, 100),
        "max": Span(0, 30 * DAY), "jitter": Flag(),
    },
)  # fmt: skip
retry_body: Final = RETRY.write
RUN_FIELDS: Final[Mapping[str, FieldType]] = {
    "task": TASK,
    "args": ARGS,
    "kwargs": KWARGS,
    "headers": HEADERS,
    "run_at": Time(),
    "queue": QUEUE,
    "priority": Whole(0, 9),
    "timeout": Span(SECOND, 7 * DAY),
    "start_within": Span(SECOND, 365 * DAY),
    "must_end_within": Span(SECOND, 365 * DAY),
    "retry": RETRY,
    "limits": RUN_LIMITS,
    "fair_key": Key(),
}
"""Of a requested run; a job has all but `run_at`."""
