"""Headers that a job or a run gives its messages, beside those of Celery and our own, and Celery's `shadow`. Pure."""

import json
import re
from typing import Any, Final

from itinerary.protocol.attempt_logs import KeepLogs
from itinerary.protocol.errors import BadValue
from itinerary.protocol.field_types import FieldType, read_object
from itinerary.protocol.json_text import MOST_LEVELS, is_deep
from itinerary.protocol.wire import HEADER_KEEP_LOGS, HEADER_TRACE, OWN_HEADERS

SHADOW: Final = "shadow"
"""Celery's header with the name to show in place of the task's."""
_LONGEST_SHADOW: Final = 200
_LARGEST: Final = 16 * 1024
_KEEP_LOGS: Final = tuple(choice.value for choice in KeepLogs)  # no set: a header may be anything
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_RULE: Final = "a name begins with a letter or digit, and has 1 to 100 of them, '_', '-' and '.'"
# Those of Celery's messages, and what its workers lay beside them into a task's request.
_CELERYS: Final = frozenset(
    {"lang", "task", "id", "eta", "expires", "group", "group_index", "retries", "timelimit", "root_id"}
    | {"parent_id", "argsrepr", "kwargsrepr", "origin", "ignore_result", "replaced_task_nesting", "stamped_headers"}
    | {"stamps", "compression", "args", "kwargs", "headers", "hostname", "properties", "delivery_info", "reply_to"}
    | {"correlation_id", "callbacks", "errbacks", "chain", "chord", "is_eager", "called_directly", "utc"}
    | {"logfile", "loglevel", "children", "clear", "get", "update", "as_execution_options", "taskset"}
    | {"soft_time_limit", "time_limit"}
)


class Headers(FieldType):
    """A JSON object of at most 16 KiB, of names that nobody else sends."""

    def read(self, value: Any, field: str) -> dict[str, Any]:
        headers = read_object(value, field)
        for name, header in headers.items():
            if not _NAME.fullmatch(name):
                raise BadValue(
                    f"{field}.{name[:100]}",
                    header,
                    _RULE,
                )
            if name == SHADOW and not (isinstance(header, str) and 0 < len(header) <= _LONGEST_SHADOW):
                advice = f"give a text of 1 to {_LONGEST_SHADOW} characters; logs and Flower show it as the task's name"
                raise BadValue(f"{field}.{name}", header, advice)
            if name in _CELERYS or name == HEADER_TRACE or name.startswith(OWN_HEADERS):
                raise BadValue(f"{field}.{name}", header, "give it another name: Celery or Itinerary sends this header")
        try:
            # What a job's field adds is short and plain; anything else of that name is a header as any.
            is_field = headers.get(HEADER_KEEP_LOGS) in _KEEP_LOGS
            own = {name: header for name, header in headers.items() if name != HEADER_KEEP_LOGS or not is_field}
            text = json.dumps(own, allow_nan=False, ensure_ascii=False)
            size = len(text.encode("utf-8"))
        except (ValueError, TypeError, RecursionError) as exc:
            raise BadValue(field, "...", f"headers must be plain JSON ({str(exc)[:80]})") from exc
        if size > _LARGEST or is_deep(text):
            raise BadValue(field, f"{size} bytes", f"give at most {_LARGEST} bytes, {MOST_LEVELS} levels deep")
        if "\\u0000" in text:
            raise BadValue(field, "...", "headers must hold no NUL character")
        return headers
