"""Tokens as the settings name them: `name:role:sha256`, optionally followed by the token's limits."""

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from scheduler_service.core.token_limits import NO_LIMITS, Limits, read_limits

Role = Literal["enqueuer", "viewer", "operator", "admin"]


_TOKEN: Final = r"([\w.-]{1,64}):(enqueuer|viewer|operator|admin):([0-9a-fA-F]{64})"
# Limits hold commas too: text after a comma is a token if it begins like one.
_BETWEEN: Final = re.compile(
    r",(?=\s*[\w.-]{1,64}:(?:enqueuer|viewer|operator|admin):[0-9a-fA-F]{64}(?:[:,\s]|$))", re.ASCII
)


@dataclass(frozen=True, slots=True)
class ApiToken:
    """One accepted bearer token: only its SHA-256 is known here."""

    name: str
    role: Role
    sha256: str = field(repr=False)
    limits: Limits = NO_LIMITS


def read_tokens(value: Any) -> tuple[ApiToken, ...]:
    """Parse the tokens of a list, or of a text separated by commas; ValueError."""
    parts = _BETWEEN.split(value) if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        raise ValueError("give a list of name:role:sha256")
    return tuple(part if isinstance(part, ApiToken) else _token(part) for part in parts)


def _token(text: Any) -> ApiToken:
    match = re.fullmatch(rf"{_TOKEN}(?::(.+))?", str(text).strip(), re.ASCII)
    if not match:
        raise ValueError(
            "give name:role:sha256 or name:role:sha256:limits, role being enqueuer, viewer, operator or admin, "
            "sha256 64 hex digits"
        )
    name, role, digest, limits = match.groups()
    given = NO_LIMITS if limits is None else read_limits(limits)
    own = replace(given, owner=name) if role == "enqueuer" else given
    return ApiToken(name, role, digest.lower(), own)  # type: ignore[arg-type]  # the pattern allows nothing else
