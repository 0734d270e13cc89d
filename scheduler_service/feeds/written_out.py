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
from collections.abc import Sequence
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
TOO_LONG: Final = "takes too long to read: it has too many events, or they repeat in too intricate a way"
_TOO_MANY: Final = "takes too long to write out with all the others; give fewer countries, or several calendars"


def holidays_written_out(asked: Sequence[tuple[str, str | None]], today: int) -> list[IcsEvents | BadValue]:
    """Return the holidays known at the day `today` of each country and subdivision, all from one process.

    In place of what is not known there is the BadValue of `holidays` or `subdivision`.
    """
    if not asked:
        return []
    different = list(dict.fromkeys(asked))
    answers = _ask({"holidays": different, "today": today})
    if answers is None:
        return [BadValue("holidays", country, _TOO_MANY) for country, _ in asked]
    found = {
        (country, part): _events(answer, {"holidays": country, "subdivision": part})
        for (country, part), answer in zip(different, answers, strict=True)
    }
    return [found[one] for one in asked]


def ics_written_out(body: bytes, zone: str, today: int) -> IcsEvents:
    """Return what the file closes, as known at the day `today`; BadValue names `ics`."""
    answers = _ask({"ics": base64.b64encode(body).decode(), "zone": zone, "today": today})
    found = BadValue("ics", None, TOO_LONG) if answers is None else _events(answers[0], {})
    if isinstance(found, BadValue):
        raise found
    return found


def _events(answer: dict[str, Any], given: dict[str, str | None]) -> IcsEvents | BadValue:
    if "wrong" in answer:
        return BadValue(answer["field"], given.get(answer["field"]), answer["wrong"])
    days = tuple(NamedDays(*each) for each in answer["days"])
    return IcsEvents(days, tuple(NamedSpan(*each) for each in answer["spans"]))


def _ask(asked: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return what the process answers; None if it met its limits."""
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
            return None
    if ended.returncode < 0:  # by its limit of processor time, or by the kernel for want of memory
        return None
    if ended.returncode:
        why = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ItineraryError(f"calendars cannot be written out: {why[:300]}")
    answers: list[dict[str, Any]] = json.loads(ended.stdout)
    return answers
