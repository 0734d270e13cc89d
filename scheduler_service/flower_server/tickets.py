"""Signed tokens that carry a dashboard user's name and role to Flower. Owns their format and signature.

A ticket lasts a minute and counts once. The session that Flower gives for it lasts a working day, or some minutes where
the dashboard can be asked again. No session outlasts the login behind it. The key is derived from Flower's password, so
a new password ends every session. Never holds the password, and never decides what a role may do.
"""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Final, Literal

from itinerary.protocol.instants import HOUR, MINUTE, Duration, Instant

Purpose = Literal["ticket", "session"]

LIFETIME: Final[dict[Purpose, Duration]] = {"ticket": MINUTE, "session": 8 * HOUR}
RENEWED_AFTER: Final[Duration] = 5 * MINUTE
"""How long a session lasts where the dashboard is asked for another."""
LOGIN_PATH: Final = "/itinerary-login"
_LONGEST: Final = 4096


@dataclass(frozen=True, slots=True)
class Ticket:
    """A user of the dashboard; `path` is the requested page of Flower, `nonce` makes each ticket unique.

    `until` is the end of the user's session at the dashboard; None if it is a token that each request carries.
    """

    name: str
    role: str
    path: str
    expires_at: Instant
    nonce: str
    until: Instant | None = None


def new_ticket(
    name: str, role: str, path: str, now: Instant, purpose: Purpose, *, until: Instant | None = None
) -> Ticket:
    """Create a ticket or session that begins now."""
    return Ticket(name, role, path, now + LIFETIME[purpose], secrets.token_urlsafe(16), until)


def session_of(ticket: Ticket, now: Instant, *, renewed: bool) -> Ticket:
    """Create the session for a ticket; `renewed`: the dashboard can be asked for another, so this one is short."""
    lasts = RENEWED_AFTER if renewed and ticket.until is not None else LIFETIME["session"]
    ends = now + lasts if ticket.until is None else min(now + lasts, ticket.until)
    return replace(ticket, expires_at=ends, nonce=secrets.token_urlsafe(16))


def sealed(ticket: Ticket, password: str, purpose: Purpose) -> str:
    """Return the signed text of a ticket or session."""
    # Left out where it is not given: a Flower of the release before knows no `until`.
    fields = {name: value for name, value in asdict(ticket).items() if value is not None}
    body = base64.urlsafe_b64encode(json.dumps(fields).encode()).decode("ascii")
    return f"{body}.{_signature(body, password, purpose)}"


def opened(text: str, password: str, purpose: Purpose, now: Instant) -> Ticket | None:
    """Return the content of a signed text; None if it is forged, for another purpose, or too old."""
    body, _, signature = text.partition(".")
    if len(text) > _LONGEST or not hmac.compare_digest(
        _signature(body, password, purpose).encode(), signature.encode("utf-8", "surrogateescape")
    ):
        return None
    try:
        ticket = Ticket(**json.loads(base64.urlsafe_b64decode(body)))
    except (binascii.Error, ValueError, TypeError):
        return None  # signed by another version of this program
    return ticket if now < ticket.expires_at else None


def is_local_path(path: str) -> bool:
    """Whether a browser reads the text as a path of the same site, and of no other."""
    return path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and len(path) <= 2048


def _signature(body: str, password: str, purpose: Purpose) -> str:
    message = f"{purpose}.{body}".encode("utf-8", "surrogateescape")
    return hmac.new(_key(password), message, hashlib.sha256).hexdigest()


@lru_cache(maxsize=8)
def _key(password: str) -> bytes:
    """Derive the key slowly, so that a ticket does not help to guess a weak password."""
    return hashlib.scrypt(password.encode("utf-8"), salt=b"itinerary flower", n=2**14, r=8, p=1, dklen=32)
