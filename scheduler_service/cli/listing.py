"""`--output`: the same list for people, for wide terminals, for programs and for spreadsheets."""

import csv
import sys
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import typer


class Form(StrEnum):
    """The forms of a list."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    CSV = "csv"


Output = Annotated[
    Form, typer.Option("--output", "-o", help="table; wide: every column, nothing folded; json: as --json; csv.")
]
_STARTS_A_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def print_list(
    output: Form,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    empty: str,
    *,
    whole: Collection[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """Print a list as a table or as CSV; its caller prints JSON itself, since that is the API's."""
    from scheduler_service.cli.output import print_table

    if output is Form.CSV:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(cell) for cell in row] for row in rows)
    elif output is Form.WIDE:
        print_table(columns, rows, empty, whole=columns)
    else:
        print_table(columns, rows, empty, whole=whole, spare=spare)


def _cell(value: Any) -> str:
    """Return a cell's text; one that a spreadsheet would take for a formula gets a leading apostrophe."""
    from rich.text import Text

    from scheduler_service.cli.output import plain

    text = "" if value is None else (value if isinstance(value, Text) else plain(value)).plain
    return f"'{text}" if text.startswith(_STARTS_A_FORMULA) else text
