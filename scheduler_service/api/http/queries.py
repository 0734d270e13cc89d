"""Query parameters: which ones a route knows, and how often each may be given.

Promises: no parameter is ignored. A misspelt filter would match everything, and a caller who acts on the answer would
act on everything. The route's own declaration is the only list of known parameters, so that no second list can differ
from it.
"""

from collections.abc import Iterator
from typing import Any, Final, get_args, get_origin

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from itinerary.protocol.errors import BadValue, BadValues

_API: Final = "/api/"


def check_query(request: Request) -> None:
    """Raise BadValues for parameters that the route does not know, wrongly repeated ones, and empty ones.

    The dashboard's forms send every field, so pages treat an empty one as not given.
    """
    given = request.query_params.multi_items()
    if not given:
        return
    known = known_parameters(request.scope["route"])
    errors = [_unknown(name, value, known) for name, value in given if name not in known]
    for name, several in known.items():
        values = [value for key, value in given if key == name]
        if len(values) > 1 and not several:
            errors.append(BadValue(name, values, "give this parameter once"))
        if "" in values and request.url.path.startswith(_API):
            errors.append(BadValue(name, "", "give a value, or leave the parameter out"))
    if errors:
        raise BadValues(errors)


def known_parameters(route: APIRoute) -> dict[str, bool]:
    """Return the names that the route declares, each with whether it may be repeated."""
    declared = {field.alias: _is_list(field.field_info.annotation) for field in _fields(route.dependant)}
    return declared | dict.fromkeys(getattr(route, "parameters_of_all", ()), False)


def _fields(dependant: Dependant) -> Iterator[Any]:
    yield from dependant.query_params
    for below in dependant.dependencies:
        yield from _fields(below)


def _is_list(annotation: Any) -> bool:
    return list in (get_origin(part) for part in (annotation, *get_args(annotation)))


def _unknown(name: str, value: str, known: dict[str, bool]) -> BadValue:
    takes = f"known are {', '.join(sorted(known))}" if known else "this path takes none"
    return BadValue(name, value, f"this parameter is not known; {takes}")
