"""Headers that make a change conditional or repeatable: If-Match, If-None-Match, Idempotency-Key.

Promises: each is honoured where a route declares it, and refused by name elsewhere. None is ignored.
"""

import re
from typing import Annotated, Any, Final

from fastapi import Header, Request

from itinerary.protocol.errors import BadValue, BadValues, StaleVersion
from scheduler_service.core.model import Job

IfMatch = Annotated[str | None, Header(alias="If-Match", description='The version that was read: `"3"`.')]
IfNoneMatch = Annotated[
    str | None,
    Header(
        alias="If-None-Match", description="`*`: only if there is no such job.",
        json_schema_extra={"pattern": r'^(\*|"\d{1,9}"(, ?"\d{1,9}")*)$'},
    ),
]  # fmt: skip
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key", min_length=1, max_length=257, json_schema_extra={"pattern": "^[ -~]+$"},
        description="The same key and request do no more than one: the header, or the field `idempotency_key`.",
    ),
]  # fmt: skip
_HEADERS: Final = ("If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Idempotency-Key")
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def check_conditions(request: Request) -> None:
    """Raise BadValues for such a header on a change that does not take it."""
    if request.method in _SAFE or not any(name in request.headers for name in _HEADERS):
        return
    taken = {field.alias.lower() for field in _header_fields(request.scope["route"].dependant)}
    errors = [
        BadValue(name, request.headers[name], "this path does not take this header; leave it out")
        for name in _HEADERS
        if name in request.headers and name.lower() not in taken
    ]
    if errors:
        raise BadValues(errors)


def _header_fields(dependant: Any) -> list[Any]:
    below = [field for sub in dependant.dependencies for field in _header_fields(sub)]
    return [*dependant.header_params, *below]


def expected_version(if_match: str | None, current: Job | None) -> int | None:
    """Return the version that If-Match names; 412 at once if it can match nothing."""
    if if_match is None:
        return None
    if if_match.strip() == "*" and current is not None:
        return current.version
    if current is None or str(current.version) not in _versions(if_match):
        raise StaleVersion(f"the job's version is {current.version if current else 'none'}; read it again")
    return current.version


def must_be_new(if_none_match: str | None, current: Job | None) -> bool:
    """Whether the job may only be created; 412 at once if the header excludes the job that exists."""
    if if_none_match is None:
        return False
    any_version = if_none_match.strip() == "*"
    if not any_version and not _versions(if_none_match):
        raise BadValue("If-None-Match", if_none_match, 'give * or versions such as "3"')
    if current is not None and (any_version or str(current.version) in _versions(if_none_match)):
        raise StaleVersion(f"the job exists, at version {current.version}")
    return any_version


def _versions(header: str) -> list[str]:
    return re.findall(r'"(\d{1,9})"', header)
