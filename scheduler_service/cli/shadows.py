"""The output of a migration: each entry with its next times and differences, or two schedules compared."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.cli.output import console, plain, when
from scheduler_service.cli.plans import STYLES, schedule_text, sign_in
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.schedules.schedule import upcoming
from scheduler_service.migrating.comparing import Comparison
from scheduler_service.migrating.converted import Converted

_TIMES: Final = 3
_DIFFERENCES_SHOWN: Final = 20


def converted_body(converted: Converted, now: Instant) -> dict[str, Any]:
    """Return one entry as JSON."""
    return {
        "name": converted.name,
        "job": None if converted.body is None else dict(converted.body),
        "next_runs": _next_times(converted, now),
        "differences": list(converted.differences),
        "refused": converted.refused,
        "left_out": converted.left_out,
    }


def print_converted(
    found: Sequence[Converted], notes: Sequence[str], now: Instant, plan: Mapping[str, Any] | None = None
) -> None:
    """Print each entry in a few lines, refused ones in red, and at the end the notes that hold for all.

    With a plan, each entry shows whether its job is new, changed or the same.
    """
    out = console()
    for converted in found:
        for line in _entry_lines(converted, now, plan):
            out.print(line, soft_wrap=True)
    for note in notes if any(converted.body for converted in found) else ():
        out.print(plain(f"of all: {note}"), soft_wrap=True)
    refused = sum(1 for converted in found if converted.refused)
    idle = sum(1 for converted in found if converted.left_out and not converted.refused)
    more = f", {idle} {'is' if idle == 1 else 'are'} sent no more and left out" if idle else ""
    out.print(plain(f"{len(found) - refused - idle} can be moved, {refused} cannot{more}"))


def _entry_lines(converted: Converted, now: Instant, plan: Mapping[str, Any] | None) -> list[Text]:
    if converted.body is None:
        return [
            Text.assemble(
                ("x ", "bold red"), plain(converted.name), ("  cannot be moved: ", "red"), plain(converted.refused)
            )
        ]
    if converted.left_out is not None:
        return [Text.assemble(("- ", "dim"), plain(converted.name), ("  left out: ", "dim"), plain(converted.left_out))]
    body = dict(converted.body)
    times = ", ".join(str(when(text)) for text in _next_times(converted, now)) or "never"
    sign, changes = sign_in(plan, body["job_id"])
    lines = [
        Text.assemble((f"{sign} {body['job_id']}", STYLES[sign]), "  ", plain(f"from {converted.name}")),
        *changes,
        plain(f"    task      {body['task']} on queue {body.get('queue', 'default')}"),
        plain(f"    schedule  {schedule_text(body)}"),
        plain(f"    next      {times}"),
    ]
    return [
        *lines,
        *(Text.assemble(("    differs   ", "yellow"), plain(line_text)) for line_text in converted.differences),
    ]


def _next_times(converted: Converted, now: Instant) -> list[str]:
    if converted.body is None:
        return []
    job, _ = read_job(converted.body, created_at=now)
    return [format_instant(at) for at in upcoming(job.schedule, now, _TIMES, start_at=job.start_at, end_at=job.end_at)]


def shadow_body(
    who: str, converted: Converted, found: Comparison | None, not_compared: str | None = None
) -> dict[str, Any]:
    """Return one entry's comparison with the scheduler `who` as JSON."""
    refused = converted.refused or not_compared
    why = {"refused": refused, "left_out": None if refused else converted.left_out}
    counts = {who: None if found is None else found.theirs, "itinerary": None if found is None else found.itinerary}
    differences = () if found is None else found.differences
    return {
        "name": converted.name,
        **why,
        **counts,
        "note": None if found is None else found.note,
        "differences": [{"at": format_instant(d.at), "only": d.only, "why": d.why} for d in differences],
    }


def print_shadow(who: str, lines: Sequence[dict[str, Any]], start: Instant, end: Instant) -> None:
    """Print a line for each entry, its differences below it, and a line that counts."""
    out = console()
    out.print(plain(f"from {when(format_instant(start))} to {when(format_instant(end))}"), soft_wrap=True)
    for line in lines:
        out.print(_shadow_line(who, line), soft_wrap=True)
        for difference in line["differences"][:_DIFFERENCES_SHOWN]:
            line_text = f"    only {difference['only']}: {when(difference['at'])}: {difference['why']}"
            out.print(plain(line_text), soft_wrap=True)
        more = len(line["differences"]) - _DIFFERENCES_SHOWN
        if more > 0:
            out.print(plain(f"    and {more} more; --json lists all"))
    count = sum(len(line["differences"]) for line in lines)
    out.print(plain(f"{count} times differ" if count else "no time differs"))


def _shadow_line(who: str, line: dict[str, Any]) -> Text:
    if line["refused"]:
        return Text.assemble(("x ", "bold red"), plain(f"{line['name']}  cannot be compared: {line['refused']}"))
    if line["left_out"]:
        return Text.assemble(("- ", "dim"), plain(f"{line['name']}  left out: {line['left_out']}"))
    sign, style = ("~ ", "yellow") if line["differences"] else ("= ", "green")
    note = f"; {line['note']}" if line["note"] else ""
    line_text = f"{line['name']}  {line[who]} by {who}, {line['itinerary']} here{note}"
    return Text.assemble((sign, style), plain(line_text))
