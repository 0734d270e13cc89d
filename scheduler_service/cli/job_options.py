"""The options of `jobs add` and `jobs edit`, and their translation into JSON."""

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from itinerary.protocol.errors import BadValue
from itinerary.protocol.field_types import Choice, FieldType, Flag, Number, Time, Whole
from itinerary.protocol.limits import Key as LimitKey
from itinerary.protocol.limits import Limits
from itinerary.protocol.message_headers import Headers
from itinerary.protocol.run_fields import ARGS, KWARGS
from scheduler_service.cli.connect import headers_value, instant_text, json_value, key_value, limits_value
from scheduler_service.core.contract.calendar_json import CALENDARS, Calendars
from scheduler_service.core.contract.fields import OVERLAP, Tags
from scheduler_service.core.contract.job_table import JOB_FIELDS, JOB_ID, SCHEDULE, JobField, leaves
from scheduler_service.core.contract.ping_json import PINGS, Pings

Key = Annotated[
    str | None, typer.Option("--key", help="Idempotency key: repeating it creates nothing new.", show_default=False)
]
Overlap = Annotated[str | None, typer.Option(help=f"{', '.join(OVERLAP.texts)}.")]
File = Annotated[str | None, typer.Option("--file", "-f", help="A file of the job's JSON, - for standard input.")]
_SCHEDULES: Final = {
    "cron": Annotated[
        list[str] | None,
        typer.Option(help="Cron expression: five fields, or six with seconds last; may be repeated for more times."),
    ],
    "dialect": Annotated[
        str | None, typer.Option(help="The program whose cron line it is: quartz, spring; empty for none.")
    ],
    "every": Annotated[str | None, typer.Option(help="Interval, such as 25m.")],
    "offset": Annotated[str | None, typer.Option(help="Shift of an interval, such as 2m.")],
    "window": Annotated[
        str | None, typer.Option(help="Hours in which the interval counts anew, such as '09:00-17:00 mon-fri'.")
    ],
    "balanced": Annotated[bool | None, typer.Option("--balanced", help="Let the scheduler place the interval.")],
    "minute": Annotated[int | None, typer.Option(help="Hourly, at this minute.")],
    "at": Annotated[
        str | None, typer.Option(help="Once, at this time; without an offset in --timezone, else in your zone.")
    ],
    "rrule": Annotated[
        str | None, typer.Option(help="Recurrence rule, such as FREQ=MONTHLY;BYDAY=2FR, from --dtstart on.")
    ],
    "dtstart": Annotated[str | None, typer.Option(help="Start of a recurrence rule: 2026-01-09T09:00.")],
    "schedule": Annotated[str | None, typer.Option(help="Any schedule, as JSON.")],
    "timezone": Annotated[str | None, typer.Option("--timezone", "--tz", help="IANA name of the schedule's zone.")],
    "day_match": Annotated[str | None, typer.Option(help="Cron with day and weekday: or, and.")],
}
_FIELDS: Final = {
    leaf.option.lstrip("-").replace("-", "_") or path: (path, leaf)
    for field in JOB_FIELDS
    if field.type not in (JOB_ID, SCHEDULE)
    for path, leaf in leaves(field)
}
"""The fields of a job by the name of their option, each with its path."""


_REMOVABLE: Final = (CALENDARS, PINGS)
_TYPES: Final[dict[type[FieldType], tuple[Any, str]]] = {
    Whole: (int, ""), Number: (float, ""), Flag: (bool, ""), Tags: (list[str], "; may be repeated"),
    Headers: (list[str], " as NAME=VALUE; may be repeated"), LimitKey: (str, ': a text, or {"from": "kwargs.tenant"}'),
    Limits: (
        list[str],
        ', as NAME, NAME=KEY or {"name": ..., "key": {"from": "kwargs.tenant"}}; may be repeated; empty for none',
    ),
    Calendars: (str, ', as JSON: {"exclude": ["holidays"], "when_excluded": "next_day"}; empty for none'),
    Pings: (str, ', as JSON: {"url": "https://...", "on": ["success", "failure"]}; empty for none'),
    Time: (str, "; without an offset in your zone"),
}  # fmt: skip
"""What is given for a type that is not given as text, and what its help adds."""


def of_a_job(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a job in place of its `**options`."""
    own = inspect.signature(command, eval_str=True)
    options = {**_SCHEDULES, **{name: _option(name, leaf) for name, (_, leaf) in _FIELDS.items()}}
    parameters = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in options.items()
    ]
    command.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return command


def _option(name: str, field: JobField) -> Any:
    of, more = _TYPES.get(type(field.type), (str, ""))
    if isinstance(field.type, Choice):
        more = f": {', '.join(field.type.texts)}"
    flag = name.replace("_", "-")
    names = f"--{flag}/--no-{flag}" if of is bool else f"--{flag}"
    return Annotated[of | None, typer.Option(names, help=f"{field.sentence}{more}.")]


def fields_of(options: dict[str, Any], file: str | None) -> dict[str, Any]:
    """Return the fields that the options give, over those of `--file`."""
    fields = _from_file(file)
    for name, (path, leaf) in _FIELDS.items():
        value = _value(options[name], leaf.type, f"--{name}")
        group, _, inner = path.partition(".")
        if inner and value is not None:
            fields[group] = {**fields.get(group, {}), inner: value}
        elif value is not None or (leaf.type in _REMOVABLE and options[name] is not None):  # null takes them away
            fields[path] = value
    schedule = _schedule(options)
    return fields if schedule is None else {**fields, "schedule": schedule}


def _value(given: Any, of: FieldType, option: str) -> Any:
    if isinstance(of, Time):
        return instant_text(given, option)
    if isinstance(of, Headers):
        return headers_value(given)
    if isinstance(of, Limits):
        return limits_value(given)
    if isinstance(of, LimitKey):
        return key_value(given, option)
    if of in (ARGS, KWARGS, *_REMOVABLE):
        return json_value(None if of in _REMOVABLE and not given else given, option)
    return given or None if isinstance(of, Tags) else given


def _schedule(options: dict[str, Any]) -> Any:
    given: dict[str, Any] = {}
    if options["cron"]:
        lines = [{"kind": "cron", "expr": line} for line in options["cron"]]
        given["--cron"] = {"kind": "any", "of": lines} if len(lines) > 1 else lines[0]
    if options["every"] is not None:
        given["--every"] = {"kind": "interval", "every": options["every"]}
    if options["minute"] is not None:
        given["--minute"] = {"kind": "hourly", "minute": options["minute"]}
    if options["rrule"] is not None:
        given["--rrule"] = {"kind": "rrule", "rrule": options["rrule"]}
    if options["at"] is not None:
        of_zone = options["timezone"] is not None  # the API reads it there
        given["--at"] = {"kind": "once", "at": options["at"] if of_zone else instant_text(options["at"], "--at")}
    if options["schedule"] is not None:
        given["--schedule"] = json_value(options["schedule"], "--schedule")
    if len(given) > 1:
        raise BadValue(" and ".join(given), "...", "give one of them")
    own = ("offset", "timezone", "balanced", "day_match", "dtstart")
    extra = {name: options[name] for name in own if options[name] is not None}
    if options["window"] is not None:
        from scheduler_service.core.schedules.window_specs import from_text  # loads numpy

        extra["window"] = from_text(options["window"]) if options["window"] else None
    if options["dialect"] is not None:
        extra["dialect"] = options["dialect"] or None  # null takes it away
    schedule = next(iter(given.values()), None)
    if isinstance(schedule, dict) and schedule.get("kind") == "any" and isinstance(schedule.get("of"), list):
        return {**schedule, "of": [{**each, **extra} if isinstance(each, dict) else each for each in schedule["of"]]}
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
