"""The output of commands: tables for people, JSON for programs; times in the reader's zone with relative words.

Promises: no text of a job or run reaches the terminal as markup or control characters. Colours appear only on a
terminal without NO_COLOR (rich handles both). In a pipe nothing is cut to a width, and on a terminal no id is.
"""

import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from itinerary.protocol.instants import from_datetime
from scheduler_service.core.contract.log_text import shown as log_text
from scheduler_service.core.explain.relative import relative
from scheduler_service.observability.logs import escaped

_NARROWEST: Final = 10
_BETWEEN: Final = 2
_STYLES: Final = {
    "completed": "green", "running": "cyan", "pending": "yellow", "retrying": "yellow", "scheduled": "",
    "failed": "bold red", "missed": "red", "cancelled": "magenta", "skipped": "dim",
}  # fmt: skip


def console() -> Console:
    """Standard output: as wide as the terminal; unlimited in a pipe."""
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 4096)


def print_json(value: Any) -> None:
    """One JSON document, indented."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=dict))  # results of the client are no dictionaries


def print_log(log: Mapping[str, Any], *, whole: bool = False) -> None:
    """Print a part of a log as it is, and on standard error what is missing; `whole`: no other part follows."""
    text = log_text(log["text"])
    if log["missing"]:
        print(f"... {log['missing']} characters before this are not shown ...", file=sys.stderr)
    sys.stdout.write(text if not text or text.endswith("\n") else f"{text}\n")
    sys.stdout.flush()
    if whole and not log["complete"]:
        print(f"attempt {log['attempt']} is not over: follow it with -f", file=sys.stderr)
    elif whole and not text:
        print(f"attempt {log['attempt']} has no log", file=sys.stderr)


def none_found(things: str, *, filtered: bool, add: str) -> str:
    """Return the message of an empty list: the advice depends on whether a filter was given."""
    return (
        f"no {things} match; leave out a filter to see more" if filtered else f"there are no {things} yet; add: {add}"
    )


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    empty: str,
    *,
    whole: Collection[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """Print a table without lines; if there are no rows, `empty`.

    Columns of `whole` hold ids, which are never wrapped or cut. Those of `spare` are left out, the first of them first,
    if the terminal is too narrow for all.
    """
    cells = [[cell if isinstance(cell, Text) else plain(cell) for cell in row] for row in rows]
    if not cells:
        print(empty, file=sys.stderr)
        return
    out = console()
    widths = {name: max(len(name), *(longest(row[place]) for row in cells)) for place, name in enumerate(columns)}
    shown = _fitting(columns, widths, spare, out.width)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in shown:
        if name in whole:
            table.add_column(name, no_wrap=True, min_width=widths[name])
        else:
            table.add_column(name, overflow="fold", min_width=min(widths[name], _NARROWEST))
    for row in cells:
        table.add_row(*(cell for name, cell in zip(columns, row, strict=True) if name in shown))
    needed = sum(widths[name] if name in whole else min(widths[name], _NARROWEST) for name in shown)
    out.width = max(out.width, needed + _BETWEEN * len(shown))  # prefer a wrapped line to a cut id
    with out.capture() as captured:
        out.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())


def _fitting(columns: Sequence[str], widths: Mapping[str, int], spare: Sequence[str], width: int) -> list[str]:
    shown = list(columns)
    for name in spare:
        if sum(widths[column] + _BETWEEN for column in shown) > width:
            shown.remove(name)
    return shown


def longest(text: Text) -> int:
    """Return the width of its longest line."""
    return max((cell_len(line) for line in text.plain.split("\n")), default=0)


def print_fields(fields: Iterable[tuple[str, Any]]) -> None:
    """Print name and value, a line each; None and empty values are left out."""
    named = [(name, value) for name, value in fields if value not in (None, "", [], {})]
    label = max((len(name) for name, _ in named), default=0)
    for name, value in named:
        text = value if isinstance(value, Text) else plain(value)
        _print_folded(text, Text(f"{name:{label}}  ", style="bold"))


def print_lines(lines: Iterable[Text]) -> None:
    """Print sentences, one after the other."""
    for line in lines:
        _print_folded(line, Text())


def _print_folded(text: Text, label: Text) -> None:
    """Print a value beside its label, wrapped between words only: a longer word, such as an id, overflows."""
    out = console()
    room = max(_NARROWEST, out.width - label.cell_len)
    for line in text.wrap(out, room, overflow="ignore") if out.is_terminal else text.split("\n"):
        line.rstrip()
        out.print(Text.assemble(label, line), soft_wrap=True)
        label = Text(" " * label.cell_len)


def print_more(shown: int, page: Mapping[str, Any], what: str) -> None:
    """Print on stderr that a list continues: `30 of 4,916 runs; --all lists all`."""
    if page["next_cursor"] is None:
        return
    total = page.get("total")
    of_all = "more" if total is None else f"{total:,}" if page.get("total_is_exact") else f"more than {total:,}"
    print(f"{shown:,} of {of_all} {what}; --limit N lists more of them, --all all", file=sys.stderr)


def at_least(number: int | None, *, is_exact: bool) -> str | None:
    """Return a number as text that says where not all were counted."""
    return None if number is None else str(number) if is_exact else f"at least {number}"


def plain(value: Any) -> Text:
    """Return a user's text with markup and control characters escaped; anything else as JSON."""
    if value is None:
        return Text("-", style="dim")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Text("\n".join(escaped(line) for line in text.split("\n")))


def state(name: str) -> Text:
    """Return a run's state in its colour."""
    return Text(escaped(name), style=_STYLES.get(name, ""))


def when(text: str | None) -> str | None:
    """Format an RFC 3339 time in the reader's zone: `2026-11-27 23:10:05 CET (in 3 min)`."""
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    wording = relative(from_datetime(moment), from_datetime(datetime.now(UTC)))
    with suppress(ValueError, OverflowError):  # outside of the years 1 to 9999 by the reader's clocks: in UTC
        moment = moment.astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S %Z} ({wording})"


def near(text: str | None) -> str | None:
    """Format the distance to an RFC 3339 time: `in 3 min`."""
    if text is None:
        return None
    return relative(from_datetime(datetime.fromisoformat(text)), from_datetime(datetime.now(UTC)))


def took(start: str | None, end: str | None) -> str | None:
    """Format a duration: `1.25 s`."""
    if start is None or end is None:
        return None
    return f"{(datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds():.2f} s"


def print_message(message: str) -> None:
    """Print one line about the result."""
    print(escaped(message))
