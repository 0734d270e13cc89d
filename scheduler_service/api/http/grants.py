"""Grants: the rights of each token and rule of the settings, under a name that changes with them.

A session stores the name of its grant. Once the token or rule is removed or changed, no grant has that name any more.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler_service.config.group_roles import GroupRole
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


def name_of_rule(settings: Settings, rule: GroupRole) -> str:
    """Return the name of the grant that a rule gives to people of the identity provider."""
    return grant_name("oidc", settings.oidc_issuer, settings.oidc_client_id, rule.group, rule.role, rule.limits)


def grants_of(settings: Settings) -> Mapping[str, Grant]:
    """Return every grant of the settings."""
    tokens = {name_of_token(token): Grant(token.role, token.limits) for token in settings.api_tokens}
    return tokens | {name_of_rule(settings, rule): Grant(rule.role, rule.limits) for rule in settings.oidc_rules}
