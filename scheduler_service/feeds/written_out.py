"""Rules for holidays and iCalendar files, written out as days in a process of their own.

The libraries take tens of megabytes, and a file may ask for days without end. Neither the API nor the leader reads one
itself: a process with limits of memory and time does. Promises BadValue with the rule's field for whatever its writer
can correct, and at most two such processes at once.
"""

import base64
import json
import os
import subprocess
import sys
import threading
from typing import Any, Final

from itinerary.protocol.errors import BadValue, ItineraryError
from scheduler_service.core.calendars.ics import IcsEvents
from scheduler_service.core.calendars.model import NamedDays, NamedSpan
from scheduler_service.core.schedules.zone_rules import installed_rules

CPU_SECONDS: Final = 10
_WITHIN_SECONDS: Final = 40.0
_AT_ONCE: Final = threading.BoundedSemaphore(2)
# Nothing else of this process's environment, which holds its secrets.
_KEPT: Final = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR")
_TOO_LONG: Final = "takes too long to read: it has too many events, or they repeat in too intricate a way"


def holidays_written_out(country: str, subdivision: str | None, today: int) -> IcsEvents:
    """Return the holidays that are known at the day `today`; BadValue names `holidays` or `subdivision`."""
    value = {"holidays": country, "subdivision": subdivision}
    return _found(_ask({**value, "today": today}), value)


def ics_written_out(body: bytes, zone: str, today: int) -> IcsEvents:
    """Return what the file closes, as known at the day `today`; BadValue names `ics`."""
    asked = {"ics": base64.b64encode(body).decode(), "zone": zone, "today": today}
    return _found(_ask(asked), {})


def _found(answer: dict[str, Any], given: dict[str, str | None]) -> IcsEvents:
    if "wrong" in answer:
        raise BadValue(answer["field"], given.get(answer["field"]), answer["wrong"])
    days = tuple(NamedDays(*each) for each in answer["days"])
    return IcsEvents(days, tuple(NamedSpan(*each) for each in answer["spans"]))


def _ask(asked: dict[str, Any]) -> dict[str, Any]:
    rules = installed_rules()
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    # The same zone files, though the libraries look for the host's first.
    environment |= {"PYTHONTZPATH": rules.folder, "LC_ALL": "C.UTF-8"}
    question = json.dumps({**asked, "cpu_seconds": CPU_SECONDS}).encode()
    command = [sys.executable, "-P", "-m", "scheduler_service.feeds.child"]
    with _AT_ONCE:
        try:
            ended = subprocess.run(
                command, input=question, capture_output=True, env=environment, timeout=_WITHIN_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return {"field": "ics", "wrong": _TOO_LONG}
    if ended.returncode < 0:  # by its limit of processor time, or by the kernel for want of memory
        return {"field": "ics", "wrong": _TOO_LONG}
    if ended.returncode:
        why = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ItineraryError(f"calendars cannot be written out: {why[:300]}")
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer
