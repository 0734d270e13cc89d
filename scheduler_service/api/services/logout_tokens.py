"""Logout tokens: by these the identity provider itself says, beside any browser, that sessions are over.

Promises that one counts only with a signature by a key of the provider, for this client and in time. An identity token
is none. See OpenID Connect Back-Channel Logout 1.0, section 2.6. Imported only where a provider is set.
"""

import hashlib
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwt import JWTClaimsRegistry

from itinerary.protocol.instants import SECOND
from scheduler_service.api.services.identity_provider import LEEWAY, IdentityProvider, IdentityRefused, reason_of
from scheduler_service.core.sessions import SignedOut

_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"
_TYPES: Final = ("logout+jwt", "jwt")
_LONGEST: Final = 200
# A token that is older is no answer to anything now; so long is each remembered.
_OLDEST: Final = 3600


def read_logout_token(provider: IdentityProvider, text: str, now: int) -> SignedOut:
    """Return what the token says is over; IdentityRefused, and ProviderDown where its keys cannot be had."""
    try:
        token = provider.verified(text)
        expected: dict[str, Any] = {
            "iss": {"essential": True, "value": provider.issuer},
            "aud": {"essential": True, "value": provider.client_id},
        }
        needed: dict[str, Any] = {name: {"essential": True} for name in ("iat", "exp", "jti", "events")}
        JWTClaimsRegistry(now=now, leeway=LEEWAY, **expected, **needed).validate(token.claims)
    except (JoseError, ValueError) as exc:
        raise IdentityRefused(f"the logout token is not accepted: {reason_of(exc)}") from exc
    wrong = _wrong(token.header, token.claims, now)
    if wrong:
        raise IdentityRefused(f"the logout token is not accepted: {wrong}")
    subject, sid = (_text(token.claims.get(name)) for name in ("sub", "sid"))
    digest = hashlib.sha256(repr((provider.issuer, token.claims["jti"])).encode()).hexdigest()
    return SignedOut(digest, (now + _OLDEST + 2 * LEEWAY) * SECOND, provider.issuer, subject, sid)


def _wrong(header: Any, claims: Any, now: int) -> str:
    """Return what makes it no logout token; empty if it is one."""
    events = claims["events"]
    if str(header.get("typ", "jwt")).lower() not in _TYPES:
        return "its typ is of another kind of token"
    if "nonce" in claims:
        return "it has a nonce, so it is an identity token"
    if not isinstance(events, dict) or not isinstance(events.get(_EVENT), dict):
        return f"its events do not have {_EVENT}"
    if claims["iat"] < now - _OLDEST - LEEWAY:
        return "it was issued more than an hour ago"
    if all(_text(claims.get(name)) is None for name in ("sub", "sid")):
        return "it names neither sub nor sid"
    return ""


def _text(value: Any) -> str | None:
    return value[:_LONGEST] if isinstance(value, str) and value else None
