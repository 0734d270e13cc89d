"""The options of `jobs add` and `jobs edit`, and their translation into JSON."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from itinerary.protocol.errors import BadValue
from scheduler_service.cli.connect import instant_text, json_value

Task = Annotated[str | None, typer.Option(help="Name of the Celery task.")]
Cron = Annotated[str | None, typer.Option(help="Cron expression: five fields, or six with seconds last.")]
Every = Annotated[str | None, typer.Option(help="Interval, such as 25m.")]
Offset = Annotated[str | None, typer.Option(help="Shift of an interval, such as 2m.")]
Balanced = Annotated[bool | None, typer.Option("--balanced", help="Let the scheduler place the interval.")]
Minute = Annotated[int | None, typer.Option(help="Hourly, at this minute.")]
At = Annotated[str | None, typer.Option(help="Once, at this time; without an offset in --timezone, else in your zone.")]
Schedule = Annotated[str | None, typer.Option(help="Any schedule, as JSON.")]
Timezone = Annotated[str | None, typer.Option("--timezone", "--tz", help="IANA name of the schedule's zone.")]
DayMatch = Annotated[str | None, typer.Option(help="Cron with day and weekday: or, and.")]
Args = Annotated[str | None, typer.Option(help="Positional arguments, a JSON list.")]
Kwargs = Annotated[str | None, typer.Option(help="Keyword arguments, a JSON object.")]
Queue = Annotated[str | None, typer.Option(help="Queue.")]
Priority = Annotated[int | None, typer.Option(help="0 (first) to 9 (last).")]
Title = Annotated[str | None, typer.Option(help="Free text.")]
Tag = Annotated[list[str] | None, typer.Option(help="May be repeated.")]
Description = Annotated[str | None, typer.Option(help="Free text, any length.")]
StartAt = Annotated[
    str | None, typer.Option("--start", help="No run before this time; without an offset in your zone.")
]
EndAt = Annotated[str | None, typer.Option("--end", help="No run from this time on; without an offset in your zone.")]
Jitter = Annotated[str | None, typer.Option(help="Delay each run by up to this much, such as 30s.")]
Misfire = Annotated[str | None, typer.Option(help="Late runs: fire_once, fire_all or skip.")]
Grace = Annotated[str | None, typer.Option(help="A run later than this is late, such as 30s.")]
MaxCatchUp = Annotated[int | None, typer.Option(help="Maximum of late runs that fire_all dispatches.")]
RetryInitial = Annotated[str | None, typer.Option(help="Pause after the first attempt, such as 5s.")]
RetryFactor = Annotated[float | None, typer.Option(help="Factor from one pause to the next.")]
RetryMax = Annotated[str | None, typer.Option(help="The longest pause, such as 10m.")]
Key = Annotated[
    str | None, typer.Option("--key", help="Idempotency key: repeating it creates nothing new.", show_default=False)
]
Overlap = Annotated[str | None, typer.Option(help="skip, allow, queue, queue_all or cancel_running.")]
Attempts = Annotated[int | None, typer.Option(help="Number of attempts of a run.")]
Timeout = Annotated[str | None, typer.Option(help="Time limit of an attempt.")]
StartWithin = Annotated[str | None, typer.Option(help="A run not started this long after its time is missed.")]
File = Annotated[str | None, typer.Option("--file", "-f", help="A file of the job's JSON, - for standard input.")]


_GROUPS: Final = {
    "misfire": {"policy": "misfire", "grace": "grace", "max_catch_up": "max_catch_up"},
    "retry": {
        "max_attempts": "attempts", "initial": "retry_initial", "factor": "retry_factor", "max": "retry_max",
    },
}  # fmt: skip


def fields_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that the options give, over those of `--file`."""
    fields = _from_file(options["file"])
    for name in ("task", "queue", "priority", "title", "overlap", "timeout", "start_within", "description", "jitter"):
        if options[name] is not None:
            fields[name] = options[name]
    for name in ("args", "kwargs"):
        if options[name] is not None:
            fields[name] = json_value(options[name], f"--{name}")
    if options["tag"]:
        fields["tags"] = options["tag"]
    for name, option in (("start_at", "--start"), ("end_at", "--end")):
        if options[name] is not None:
            fields[name] = instant_text(options[name], option)
    for group, names in _GROUPS.items():
        given = {name: options[option] for name, option in names.items() if options[option] is not None}
        if given:
            fields[group] = {**fields.get(group, {}), **given}
    schedule = _schedule(options)
    return fields if schedule is None else {**fields, "schedule": schedule}


def _schedule(options: dict[str, Any]) -> Any:
    given: dict[str, Any] = {}
    if options["cron"] is not None:
        given["--cron"] = {"kind": "cron", "expr": options["cron"]}
    if options["every"] is not None:
        given["--every"] = {"kind": "interval", "every": options["every"]}
    if options["minute"] is not None:
        given["--minute"] = {"kind": "hourly", "minute": options["minute"]}
    if options["at"] is not None:
        of_zone = options["timezone"] is not None  # the API reads it there
        given["--at"] = {"kind": "once", "at": options["at"] if of_zone else instant_text(options["at"], "--at")}
    if options["schedule"] is not None:
        given["--schedule"] = json_value(options["schedule"], "--schedule")
    if len(given) > 1:
        raise BadValue(" and ".join(given), "...", "give one of them")
    extra = {
        name: options[name] for name in ("offset", "timezone", "balanced", "day_match") if options[name] is not None
    }
    schedule = next(iter(given.values()), None)
    return {**schedule, **extra} if isinstance(schedule, dict) else schedule or extra or None


def _from_file(name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise BadValue("--file", name, f"give a readable file ({exc})") from exc
    try:
        fields = json.loads(text)
    except ValueError as exc:
        raise BadValue("--file", name, f"it must hold JSON ({exc})") from exc
    if not isinstance(fields, dict):
        raise BadValue("--file", name, "it must hold one JSON object")
    return fields
