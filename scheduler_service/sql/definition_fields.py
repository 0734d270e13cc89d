"""A field of a job's stored definition as SQL, for columns that a database computes."""

from typing import Any, Final

from sqlalchemy import ColumnElement, Text, literal_column
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

_PATHS: Final = {"sqlite": "json_extract(definition, '$.{}')", "postgresql": "json_extract_path_text(definition, '{}')"}


class _FieldOf(FunctionElement[str]):
    """A text of the definition."""

    inherit_cache = True
    type = Text()


@compiles(_FieldOf)
def _path(element: _FieldOf, compiler: Any, **_: Any) -> str:
    (name,) = element.clauses
    return _PATHS[compiler.dialect.name].format(name)


def field_of(name: str) -> ColumnElement[str]:
    """The field of this name."""
    return _FieldOf(literal_column(name))
