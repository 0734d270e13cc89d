"""A plan as people read it: added jobs and monitors, changed fields, removed ones."""

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
    lines += _changes(plan, "") if entries else []
    for entry in plan["removed"]:
        lines.append(_line("-", entry["job_id"], _in_short(entry["job"])))
    lines += _left(plan, "") + _monitor_lines(monitors_of(plan))
    lines += [plain(f"warning: {warning['job_id']}: {warning['msg']}") for warning in plan["warnings"]]
    out = console()
    for line in lines:
        out.print(line, soft_wrap=True)
    out.print(plain(_count(plan)))


def monitors_of(plan: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the plan of monitors; an API of the release before has none."""
    return plan.get("monitors") or {"added": [], "changed": [], "removed": [], "left": [], "unchanged": 0}


def _monitor_lines(plan: Mapping[str, Any]) -> list[Text]:
    lines = [
        _line(sign, f"monitor {entry['monitor_id']}", _due(entry))
        for sign, name in (("+", "added"), ("-", "removed"))
        for entry in plan[name]
    ]
    return lines + _changes(plan, "monitor ") + _left(plan, "monitor ")


def _due(entry: Mapping[str, Any]) -> str:
    # A monitor of a newer release comes without its definition.
    monitor = entry["monitor"]
    return schedule_text({"job_id": entry["monitor_id"], **monitor}) if monitor else ""


def _changes(plan: Mapping[str, Any], what: str) -> list[Text]:
    lines: list[Text] = []
    for entry in plan["changed"]:
        named = entry.get("job_id") or entry["monitor_id"]
        lines.append(_line("~", f"{what}{named}", f"version {entry['version']}"))
        lines += [field_line(change) for change in entry["changes"]]
    return lines


def _left(plan: Mapping[str, Any], what: str) -> list[Text]:
    return [_line("=", f"{what}{name}", "is not named; it stays") for name in plan["left"]]


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
    both = (plan, monitors_of(plan))
    counts = [(sum(len(part[name]) for part in both), name) for name in ("added", "changed", "removed")]
    message = ", ".join(f"{count} {name}" for count, name in counts if count) or "nothing to change"
    owner = f"{plan['source']}: " if plan["source"] else ""
    return f"{owner}{message}, {sum(part['unchanged'] for part in both)} as they are"
