"""Who a checked identity is here: the name for the audit log, and the rule that gives the rights."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from itinerary.protocol.errors import ItineraryError
from scheduler_service.api.http.grants import name_of_rule
from scheduler_service.config.group_roles import GroupRole
from scheduler_service.config.settings import Settings
from scheduler_service.core.sessions import SignedIn

_LONGEST: Final = 200
_SHOWN: Final = 10
_LONGEST_TOKEN: Final = 16 * 1024


class NoGroup(ItineraryError):
    """The identity is known, and none of its groups has a role here."""


def signed_in(settings: Settings, claims: Mapping[str, Any], id_token: str) -> tuple[SignedIn, GroupRole]:
    """Return who signs in and by which rule; NoGroup says which groups have a role."""
    issuer = str(settings.oidc_issuer)
    name = f"{_shown_name(claims)} ({issuer})"
    groups = groups_of(claims, settings.oidc_groups_claim)
    rule = next((rule for rule in settings.oidc_rules if rule.group is None or rule.group in groups), None)
    if rule is None:
        has, claim = _listed(groups) or "nothing", settings.oidc_groups_claim
        wanted = _listed([str(each.group) for each in settings.oidc_rules])
        raise NoGroup(
            f"{name} is in no group that may use this service. Ask for one of: {wanted}. "
            f"The claim {claim} of the identity token has {has}."
        )
    kept = id_token if len(id_token) <= _LONGEST_TOKEN else None
    subject, sid = str(claims["sub"])[:_LONGEST], claims.get("sid")
    named = sid[:_LONGEST] if isinstance(sid, str) and sid else None
    return SignedIn(name_of_rule(settings, rule), name, subject, issuer, kept, named), rule


def groups_of(claims: Mapping[str, Any], name: str) -> Sequence[str]:
    """Return the groups in a claim, which may lie in another: `realm_access.roles`."""
    found: Any = claims.get(name)
    if found is None:
        found = claims
        for part in name.split("."):
            found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, str):
        return (found,)
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


def _shown_name(claims: Mapping[str, Any]) -> str:
    """Return the address if the provider has verified it, else the subject, which nobody can choose."""
    email = claims.get("email") if claims.get("email_verified") is True else None
    text = email if isinstance(email, str) and email else str(claims["sub"])
    return "".join(letter if letter.isprintable() else " " for letter in text)[:_LONGEST]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(name[:_LONGEST] for name in names[:_SHOWN]) + more
