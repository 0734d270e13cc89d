"""What the matrix found, as a table: a row a case, a column an environment, a letter a pool."""

import re
from collections.abc import Mapping

from tests.support.matrix import COLUMNS, POOLS

LEGEND = """\
p prefork, t threads, g gevent, s solo: right.  P T G S: wrong.  -: not to be had there.  .: not a case of that pool.
"""
_NAMED = re.compile(r"::test_(\w+)\[([\d.]+-[\d.]+)-(\w+?)(?:-(\w+))?\]")


def table(outcomes: Mapping[str, str]) -> str:
    """The table of these outcomes (passed, skipped, ...) by the ids of their tests; empty where none is of a worker."""
    cells: dict[str, dict[tuple[str, str], str]] = {}
    for name, outcome in outcomes.items():
        if match := _NAMED.search(name):
            case, column, pool, more = match.groups()
            row = f"{case}_{more}" if more else case
            letter = {"passed": pool[0], "skipped": "-"}.get(outcome, pool[0].upper())
            cells.setdefault(row.replace("_", " "), {})[column, pool] = letter
    if not cells:
        return ""
    columns = [
        str(column) for column in COLUMNS if any(str(column) == held for row in cells.values() for held, _ in row)
    ]
    wide = max(map(len, cells))
    heads = [" " * wide, " " * wide]
    for column in columns:
        celery, _, python = column.partition("-")
        heads[0] += f"  {celery:<4}"
        heads[1] += f"  {python:<4}"
    lines = [f"{heads[0]}  Celery", f"{heads[1]}  Python"]
    for row, held in cells.items():
        drawn = ("".join(held.get((column, pool), ".") for pool in POOLS) for column in columns)
        lines.append(f"{row:<{wide}}  {'  '.join(drawn)}")
    return "\n".join([*lines, LEGEND])
