"""The JSON of a job, built from Python values, with the file and line that declare it.

Promises that durations, instants and arguments become what the API takes, and that an error names file and line. Judges
no schedule.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import MICROSECOND, format_duration, format_instant, from_datetime
from itinerary.protocol.typed_values import from_python

_NUMBERED: Final = re.compile(r"\bjobs\.(\d+)\b")


class Body(dict[str, Any]):
    """One job as the API takes it; `place` is the file and line that declare it, `shop/tasks.py:12`."""

    def __init__(self, place: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.place = place

    @property
    def named(self) -> str:
        """The place and the job, as errors begin: `shop/tasks.py:12: job shop.close`."""
        return f"{self.place}: job {self['job_id']}"


def placed(message: str, bodies: Sequence[Body]) -> str:
    """The API's message with the file and line of each job in place of its number in the request (`jobs.3`)."""

    def name(found: "re.Match[str]") -> str:
        number = int(found[1])
        return bodies[number].named if number < len(bodies) else found[0]

    return _NUMBERED.sub(name, message)


def plain_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job as JSON, without those that are None; BadValue for a value that has no form in JSON."""
    return {name: _as_json(name, value) for name, value in fields.items() if value is not None}


def _as_json(name: str, value: Any) -> Any:
    """A field of a job; in the arguments a datetime, Decimal, UUID or bytes arrives in the task as what it is."""
    try:
        found = from_python(value, _refuse) if name in ("args", "kwargs") else _plain(name, value)
        json.dumps(found, allow_nan=False)
    except (TypeError, ValueError, RecursionError, OverflowError) as exc:
        raise BadValue(name, None, f"give plain values ({str(exc)[:80]})") from exc
    return found


def _refuse(value: object) -> Any:
    raise TypeError(f"a {type(value).__name__} cannot be an argument of a job")


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, timedelta):
        return format_duration(value // timedelta(microseconds=MICROSECOND))
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise BadValue(name, value.isoformat(), "give an aware datetime, or a text with an offset")
        return format_instant(from_datetime(value))
    if isinstance(value, Mapping):
        return {key: _plain(f"{name}.{key}", item) for key, item in value.items()}
    return [_plain(name, item) for item in value] if isinstance(value, list | tuple) else value
