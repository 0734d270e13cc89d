"""What the commands print: tables for people, JSON for programs; times in the reader's zone with relative words.

Promises: no text of a job or run reaches the terminal as markup or control characters; colours only on a terminal
without NO_COLOR (rich sees to both); in a pipe nothing is cut to a width.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scheduler_service.core.instants import from_datetime
from scheduler_service.core.relative import relative
from scheduler_service.logs import escaped

_STYLES: Final = {
    "completed": "green", "running": "cyan", "pending": "yellow", "retrying": "yellow", "scheduled": "",
    "failed": "bold red", "missed": "red", "cancelled": "magenta", "skipped": "dim",
}  # fmt: skip


def console() -> Console:
    """Standard output: as wide as the terminal, as wide as it takes in a pipe."""
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 4096)


def print_json(value: Any) -> None:
    """One JSON document, indented."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], empty: str) -> None:
    """A table without lines; `empty` is said where there is no row."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else plain(cell) for cell in row))
    if table.row_count:
        console().print(table)
    else:
        print(empty, file=sys.stderr)


def print_fields(fields: Iterable[tuple[str, Any]]) -> None:
    """Name and value, a line each; what is None or empty is left out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields:
        if value not in (None, "", [], {}):
            table.add_row(name, value if isinstance(value, Text) else plain(value))
    console().print(table)


def plain(value: Any) -> Text:
    """Somebody's text as it may be shown; anything else as JSON."""
    if value is None:
        return Text("-", style="dim")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Text("\n".join(escaped(line) for line in text.split("\n")))


def state(name: str) -> Text:
    """A run's state in its colour."""
    return Text(escaped(name), style=_STYLES.get(name, ""))


def when(text: str | None) -> str | None:
    """An RFC 3339 time as the reader's clock shows it: `2026-11-27 23:10:05 CET (in 3 min)`."""
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    words = relative(from_datetime(moment), from_datetime(datetime.now(UTC)))
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S %Z} ({words})"


def took(start: str | None, end: str | None) -> str | None:
    """How long something lasted: `1.25 s`."""
    if start is None or end is None:
        return None
    return f"{(datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds():.2f} s"


def say(message: str) -> None:
    """One line about what was done."""
    print(escaped(message))
