"""Roles of an identity provider's groups, as the settings name them: `group:role`, optionally followed by limits."""

import re
from dataclasses import dataclass
from typing import Any, Final

from scheduler_service.config.tokens import Role
from scheduler_service.core.token_limits import NO_LIMITS, Limits, read_limits

_ROLE: Final = r":(viewer|operator|admin)"
# Limits hold commas too: text after a comma is a rule if it names a role before the next comma.
_BETWEEN: Final = re.compile(rf",(?=[^,]*{_ROLE}(?:[:,]|\s*$))")


@dataclass(frozen=True, slots=True)
class GroupRole:
    """The rights of the people in a group; `group` None: of everybody who signs in."""

    group: str | None
    role: Role
    limits: Limits = NO_LIMITS


def read_group_roles(value: Any) -> tuple[GroupRole, ...]:
    """Parse the rules of a list, or of a text separated by commas; ValueError."""
    # The pattern has one group, so every second part is a role that was only looked at.
    parts = _BETWEEN.split(value)[::2] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        raise ValueError("give a list of group:role")
    return tuple(part if isinstance(part, GroupRole) else _rule(str(part).strip()) for part in parts)


def _rule(text: str) -> GroupRole:
    match = re.fullmatch(rf"(.*?){_ROLE}(?::(.+))?", text)
    if not match or not match[1].strip():
        raise ValueError("give group:role or group:role:limits, role being viewer, operator or admin")
    limits = NO_LIMITS if match[3] is None else read_limits(match[3])
    return GroupRole(match[1].strip(), match[2], limits)  # type: ignore[arg-type]  # the pattern allows nothing else
