"""Sessions of browsers: who signed in, until when. Values only."""

from dataclasses import dataclass, field

from itinerary.protocol.instants import Duration, Instant


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who signed in; `granted_by` names the token or rule that the rights come from, `issuer` an identity provider."""

    granted_by: str
    name: str
    subject: str
    issuer: str | None = None
    id_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Session:
    """The session of one browser; `ends_at` is its end at the latest."""

    session_id: int
    who: SignedIn
    agent: str
    started_at: Instant
    seen_at: Instant
    ends_at: Instant

    def is_live(self, now: Instant, idle: Duration) -> bool:
        """Whether it lasts: neither over nor unused for `idle`."""
        return now < self.ends_at and now - self.seen_at < idle
