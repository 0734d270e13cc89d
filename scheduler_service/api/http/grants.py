"""Grants: the rights of each token and rule of the settings, under a name that changes with them.

A session stores the name of its grant. Once the token or rule is removed or changed, no grant has that name any more.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler_service.config.settings import ApiToken, Role, Settings
from scheduler_service.core.token_limits import Limits


@dataclass(frozen=True, slots=True)
class Grant:
    """A role with its limits."""

    role: Role
    limits: Limits


def grant_name(kind: str, *parts: object) -> str:
    """Return the name of a grant: a digest of all that it consists of."""
    return hashlib.sha256(repr((kind, *parts)).encode()).hexdigest()


def name_of_token(token: ApiToken) -> str:
    """Return the name of a token's grant."""
    return grant_name("token", token.name, token.role, token.sha256, token.limits)


def grants_of(settings: Settings) -> Mapping[str, Grant]:
    """Return every grant of the settings."""
    return {name_of_token(token): Grant(token.role, token.limits) for token in settings.api_tokens}
