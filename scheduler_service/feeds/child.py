"""The process that writes one rule's days out: a question on stdin, the answer on stdout, both JSON, then its end.

Promises to end by itself within its limits of memory and processor time, whatever the file asks for. Never opens a file
or a connection of its own.
"""

import base64
import json
import resource
import sys
from contextlib import suppress
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from scheduler_service.core.calendars.holiday_rules import holiday_years, holidays_of
from scheduler_service.core.calendars.ics import IcsError, ics_window, read_ics

_MEMORY_BYTES: Final = 1024 * 1024 * 1024


def answers(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the answer of a file, or of each pair of country and subdivision, in their order."""
    if "ics" in asked:
        return [_of_file(asked)]
    years = holiday_years(asked["today"])
    return [_of_country(country, subdivision, years) for country, subdivision in asked["holidays"]]


def _of_country(country: Any, subdivision: Any, years: range) -> dict[str, Any]:
    try:
        return {"days": holidays_of(country, subdivision, years), "spans": ()}
    except BadValue as exc:
        return {"field": exc.field, "wrong": exc.allowed}


def _of_file(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the days and spans of a file, or the field that is wrong and why."""
    start, end = ics_window(asked["today"])
    try:
        found = read_ics(base64.b64decode(asked["ics"]), zone=asked["zone"], start=start, end=end)
    except IcsError as exc:
        return {"field": "ics", "wrong": str(exc)}
    except MemoryError:
        return {"field": "ics", "wrong": "takes too much memory to read"}
    return {"days": found.days, "spans": found.spans}


def _limit(cpu_seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    with suppress(ValueError, OSError):  # macOS refuses this one
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))


if __name__ == "__main__":
    question = json.load(sys.stdin)
    _limit(question["cpu_seconds"])
    json.dump(answers(question), sys.stdout)
