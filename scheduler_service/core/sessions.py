"""Sessions of browsers: who signed in, until when. Values only."""

from dataclasses import dataclass, field

from itinerary.protocol.instants import Duration, Instant


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who signed in; `granted_by` names the token or rule that the rights come from, `issuer` an identity provider.

    `sid` is the session's name there.
    """

    granted_by: str
    name: str
    subject: str
    issuer: str | None = None
    id_token: str | None = field(default=None, repr=False)
    sid: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """The session of one browser; `ends_at` is its end at the latest, `address` where it was begun, if known."""

    session_id: int
    who: SignedIn
    agent: str
    started_at: Instant
    seen_at: Instant
    ends_at: Instant
    address: str | None = None

    def is_live(self, now: Instant, idle: Duration) -> bool:
        """Whether it lasts: neither over nor unused for `idle`."""
        return now < self.ends_at and now - self.seen_at < idle


@dataclass(frozen=True, slots=True)
class SignedOut:
    """The claims of a logout token: all sessions of a subject are over, or one by its name at the provider.

    `token_hash` and `expires_at`: the token counts once until then.
    """

    token_hash: str
    expires_at: Instant
    issuer: str
    subject: str | None
    sid: str | None
