"""Make the results, errors and retry arguments of tasks storable: plain JSON, cut to size, and marked if changed.

Promises a value of bounded size for every object, however odd. Pure.
"""

import json
import traceback
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from types import TracebackType
from typing import Any, Final
from uuid import UUID

from itinerary.protocol.json_text import is_deep
from itinerary.worker.hiding import AS_IT_IS, Hide

RESULT_LIMIT: Final = 64 * 1024
ARGUMENTS_LIMIT: Final = 320 * 1024
MESSAGE_LIMIT: Final = 4 * 1024
TRACEBACK_LIMIT: Final = 16 * 1024
_START_SHOWN: Final = 4 * 1024
_REPR_SHOWN: Final = 1024
_TYPE_SHOWN: Final = 200


def plain_result(result: object, hide: Hide = AS_IT_IS) -> Any:
    """The result as JSON; `{"$repr": ..}` replaces a value that is not, `{"$cut": ..}` one that is too long or deep.

    `hide` removes secrets from these texts before they are cut.
    """
    plain = _plain if hide is AS_IT_IS else partial(_plain, hide=hide)
    try:
        text = json.dumps(result, default=plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return _marked(result, hide)
    if len(text) > RESULT_LIMIT or is_deep(text):
        return {"$cut": {"size": len(text), "start": hide(text)[:_START_SHOWN]}}
    return json.loads(text)


def plain_error(exc: BaseException, hide: Hide = AS_IT_IS) -> dict[str, str]:
    """Type, message and traceback of an exception, without Celery's own frames and without what `hide` removes."""
    trace = _users_frames(exc.__traceback__)
    lines = traceback.TracebackException(type(exc), exc, trace, compact=True).format()
    return {
        "type": type_name(exc)[:_TYPE_SHOWN],
        "message": cut(hide(printable(exc)), MESSAGE_LIMIT),
        "traceback": cut(hide("".join(lines)), TRACEBACK_LIMIT),
    }


def type_name(value: object) -> str:
    """`module.Class`; builtins bare."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def cut(text: str, limit: int) -> str:
    """At most about `limit` characters; a note in the middle says how many were removed."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters cut ...\n{text[-half:]}"


def printable(value: object) -> str:
    """str(), also for objects whose own fails."""
    try:
        return str(value)
    except Exception as exc:  # noqa: BLE001 - it is a user's __str__ and may raise anything
        return f"<{type_name(value)} that cannot be printed: {type(exc).__name__}>"


def _plain(value: object, hide: Hide = AS_IT_IS) -> Any:
    match value:
        case datetime() | date():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case _:
            return _marked(value, hide)


def _marked(value: object, hide: Hide) -> dict[str, dict[str, str]]:
    try:
        text = repr(value)
    except Exception as exc:  # noqa: BLE001 - it is a user's __repr__ and may raise anything
        text = f"<repr failed: {type(exc).__name__}>"
    return {"$repr": {"type": type_name(value)[:_TYPE_SHOWN], "text": cut(hide(text), _REPR_SHOWN)}}


def _users_frames(trace: TracebackType | None) -> TracebackType | None:
    rest = trace
    while rest is not None and rest.tb_frame.f_globals.get("__name__", "").startswith("celery."):
        rest = rest.tb_next
    return rest if rest is not None else trace
