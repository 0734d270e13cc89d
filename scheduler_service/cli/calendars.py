"""`itinerary calendars`: list, show, set and delete named calendars."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from itinerary.protocol.errors import BadValue, BadValues
from scheduler_service.cli.bounds import Description
from scheduler_service.cli.completing import calendar_ids
from scheduler_service.cli.connect import open_client
from scheduler_service.cli.listing import Form, Output, print_list
from scheduler_service.cli.status import Json

Id = Annotated[str, typer.Argument(help="The calendar's id.", show_default=False, autocompletion=calendar_ids)]
_MOST_SHOWN = 366

calendars = typer.Typer(help="Calendars: named days and times that jobs leave out or move.", no_args_is_help=True)


@calendars.command("list")
def list_calendars(as_json: Json = False, output: Output = Form.TABLE) -> None:
    """List the calendars."""
    from scheduler_service.cli.output import none_found, print_json

    with open_client() as client:
        found = client.calendars()
    if as_json or output is Form.JSON:
        print_json([dict(one) for one in found])
        return
    rows = [(one.calendar_id, one.timezone, len(one.rules), one.version, one.description) for one in found]
    add = 'itinerary calendars set ID --rule "2026-12-24..2027-01-02 Closed"'
    empty = none_found("calendars", filtered=False, add=add)
    print_list(output, ("calendar", "zone", "rules", "version", "description"), rows, empty, whole=("calendar",))


@calendars.command("show")
def show_calendar(
    calendar_id: Id,
    year: Annotated[int | None, typer.Option(help="Show the days of this year, too.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Show one calendar, and with a year its days."""
    from scheduler_service.cli.output import print_json, print_table

    with open_client() as client:
        calendar = client.calendar(calendar_id)
        days = None if year is None else client.calendar_days(calendar_id, year)
    if as_json:
        print_json(dict(calendar) if days is None else {**calendar, "days": [dict(day) for day in days]})
        return
    _print(calendar)
    if days is not None:
        rows = [(day.date, "all day" if day.whole else "in part", ", ".join(day.names)) for day in days[:_MOST_SHOWN]]
        print_table(("day", "closed", "names"), rows, f"no days in {year}")


@calendars.command("set")
def set_calendar(
    calendar_id: Id,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            help='A rule, in place of those before: "2026-12-24 Christmas Eve", "2026-12-24..2027-01-02 Closed",'
            ' "weekly sat,sun", "weekly sun 02:00-04:00 Maintenance", "holidays DE-BE", "ics https://...";'
            " may be repeated.",
            show_default=False,
        ),
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="The zone of its days, such as Europe/Berlin.", show_default=False)
    ] = None,
    ics: Annotated[
        Path | None, typer.Option(help="An iCalendar file whose events belong to it.", show_default=False)
    ] = None,
    description: Description = None,
    as_json: Json = False,
) -> None:
    """Define a calendar, or change what is given of it."""
    from itinerary.client.transport import ApiError
    from scheduler_service.cli.output import print_json

    rules = [_rule(line, place) for place, line in enumerate(rule or ())]
    if ics is not None:
        rules.append({"ics": {"text": _text_of(ics)}})
    given = {"rules": rules or None, "timezone": timezone, "description": description}
    with open_client() as client:
        try:
            there = client.calendar(calendar_id)
            before = {name: there[name] for name in given}
        except ApiError as error:
            if error.status != 404:
                raise
            before = {}
        change = {name: value for name, value in given.items() if value is not None}
        calendar = client.put_calendar(calendar_id, {**before, **change})
    if as_json:
        print_json(dict(calendar))
        return
    _print(calendar)


@calendars.command("delete")
def delete_calendar(calendar_id: Id) -> None:
    """Delete a calendar that no job names."""
    from scheduler_service.cli.output import print_message

    with open_client() as client:
        client.delete_calendar(calendar_id)
    print_message(f"{calendar_id} deleted")


def _rule(line: str, place: int) -> Mapping[str, Any]:
    from scheduler_service.core.calendars.rule_texts import read_line

    try:
        return read_line(line)
    except BadValue as error:
        raise BadValues([BadValue(f"--rule {place + 1}", line, error.allowed)]) from error


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadValue("--ics", str(path), f"give a readable file ({error})") from error


def _print(calendar: Any) -> None:
    from scheduler_service.cli.output import print_fields, when
    from scheduler_service.core.calendars.rule_texts import lines_of

    lines = lines_of(calendar.rules)
    rules = [str(rule) for rule in calendar.rules] if lines is None else lines
    print_fields(
        [
            ("calendar", calendar.calendar_id),
            ("description", calendar.description),
            ("zone", calendar.timezone),
            ("rules", "\n".join(rules)),
            ("version", f"{calendar.version}, from {when(calendar['effective_from'])} on"),
            ("known until", calendar.known_until),
        ]
    )
