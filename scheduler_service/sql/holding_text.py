"""Whether a text contains another, the same on both databases."""

from typing import Any

from sqlalchemy import ColumnElement, Text, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class _Holds(FunctionElement[bool]):
    """Whether a text contains another one, letter by letter, which LIKE does not do on every database."""

    inherit_cache = True


@compiles(_Holds, "sqlite")
def _instr(element: _Holds, compiler: Any, **options: Any) -> str:
    return f"instr({compiler.process(element.clauses, **options)}) > 0"


@compiles(_Holds, "postgresql")
def _strpos(element: _Holds, compiler: Any, **options: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **options)}) > 0"


def holds(column: ColumnElement[str], part: str) -> ColumnElement[bool]:
    """The condition that a text contains another one."""
    return _Holds(column, literal(part, Text))
