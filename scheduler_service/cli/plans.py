"""A plan as people read it: added jobs, changed fields, removed jobs."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from rich.text import Text

from itinerary.protocol.errors import ItineraryError
from scheduler_service.cli.output import console, plain
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.schedule import parse_schedule

STYLES: Final = {"+": "green", "~": "yellow", "-": "red", "=": "dim"}
_LONGEST: Final = 200
# The start is known only once the job is created.
_COUNTED: Final = re.compile(r", counted from \S+")


def print_plan(plan: Mapping[str, Any], *, entries: bool = True) -> None:
    """Print one line a job, the changed fields below it, and a line that counts; without `entries`, no job to apply."""
    lines: list[Text] = []
    for entry in plan["added"] if entries else ():
        lines.append(_line("+", entry["job_id"], _in_short(entry["job"])))
    for entry in plan["changed"] if entries else ():
        lines.append(_line("~", entry["job_id"], f"version {entry['version']}"))
        lines += [field_line(change) for change in entry["changes"]]
    for entry in plan["removed"]:
        lines.append(_line("-", entry["job_id"], _in_short(entry["job"])))
    for job_id in plan["left"]:
        lines.append(_line("=", job_id, "is not named; it stays"))
    lines += [plain(f"mind: {warning['job_id']}: {warning['msg']}") for warning in plan["warnings"]]
    out = console()
    for line in lines:
        out.print(line, soft_wrap=True)
    out.print(plain(_count(plan)))


def schedule_text(job: Mapping[str, Any]) -> str:
    """Return the job's schedule in a sentence; its JSON if this program does not understand it."""
    try:
        schedule = parse_schedule(job["schedule"], job_id=job["job_id"], created_at=0).schedule
    except ItineraryError:
        return json.dumps(job["schedule"])
    message = describe(schedule)
    counted = job["schedule"].get("anchor") or job["schedule"].get("start")
    return message if counted else _COUNTED.sub("", message)


def _in_short(job: Mapping[str, Any]) -> str:
    return f"{job['task']}: {schedule_text(job)}"


def sign_in(plan: Mapping[str, Any] | None, job_id: str) -> tuple[str, list[Text]]:
    """Return what becomes of a job that is applied: + new, ~ changed with the fields, = the same; + without a plan."""
    if plan is None or any(entry["job_id"] == job_id for entry in plan["added"]):
        return "+", []
    for entry in plan["changed"]:
        if entry["job_id"] == job_id:
            return "~", [field_line(change) for change in entry["changes"]]
    return "=", []


def _line(sign: str, job_id: str, message: str) -> Text:
    return Text.assemble((f"{sign} {job_id}", STYLES[sign]), "  ", plain(message))


def field_line(change: Mapping[str, Any]) -> Text:
    """Return a changed field with both its values."""
    return plain(f"    {change['field']}: {_shown(change['before'])} -> {_shown(change['after'])}")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _count(plan: Mapping[str, Any]) -> str:
    counts = [(len(plan[name]), name) for name in ("added", "changed", "removed")]
    message = ", ".join(f"{count} {name}" for count, name in counts if count) or "nothing to change"
    owner = f"{plan['source']}: " if plan["source"] else ""
    return f"{owner}{message}, {plan['unchanged']} as they are"
