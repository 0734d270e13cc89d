"""Access to Flower: the verdict on one request, before Flower receives it.

Owns the rules on Host, Origin and Sec-Fetch-Site, the password, sessions and roles. Promises: every route needs a
login, except the health check and the login itself. A viewer changes nothing; a ticket counts once; passwords are
compared in constant time. Reads no clock and opens nothing.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.flower_server.tickets import LIFETIME, LOGIN_PATH, Ticket, is_local_path, opened
from scheduler_service.runtime.addresses import hostname, is_address, is_loopback, netloc

USER: Final = "itinerary"
COOKIE: Final = "itinerary_flower"
_OPEN_PATH: Final = "/healthcheck"
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_READS_BY_POST: Final = frozenset({"/tasks/datatable"})
"""The POST request by which Flower's own list of tasks fetches its rows."""
_ONLY_GET: Final = "a ticket is redeemed by GET alone: follow the dashboard's link in a browser"
_MOST_FAILURES: Final = 10
_FAILURES_WITHIN: Final = 10 * SECOND
_MOST_SENDERS: Final = 1000


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: `path` without Flower's prefix and the query, `sender` the address it came from."""

    method: str
    path: str
    headers: Mapping[str, str]
    session: str = ""
    ticket: str = ""
    sender: str = ""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The request may pass to Flower."""


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """The ticket counts: its holder gets a session and is redirected to the ticket's path."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer instead of Flower's; `failed_login` after a wrong password or ticket."""

    status: int
    sentence: str
    failed_login: bool = False


@dataclass(frozen=True, slots=True)
class SentToDashboard:
    """The session is over: the browser gets another ticket at the dashboard, if its login there lasts."""

    url: str


Verdict = Admitted | LoggedIn | SentToDashboard | Refused


@dataclass(slots=True)
class Guard:
    """Judges the requests of one Flower, which listens on `host`; `url` is its public address, if configured.

    `dashboard` is the dashboard's public address, if configured.

    Used tickets are remembered from `since` on; older ones are refused, so that a restart accepts none twice.
    """

    password: str = field(repr=False)
    host: str
    url: str | None = None
    since: Instant = 0
    dashboard: str | None = None
    _used: dict[str, Instant] = field(default_factory=dict)
    _failures: dict[str, list[Instant]] = field(default_factory=dict)

    def judge(self, asked: Asked, now: Instant) -> Verdict:
        """Judge a request. Records used tickets and failed logins."""
        stranger = self._wrong_host(asked) or self._foreign(asked)
        if stranger:
            return Refused(403, stranger)
        if asked.path == _OPEN_PATH and asked.method in _READS:
            return Admitted()
        if asked.path == LOGIN_PATH:
            # A browser follows the link by GET; what checks links asks by HEAD and must not use the ticket up.
            return self._redeem(asked.ticket, now) if asked.method == "GET" else Refused(405, _ONLY_GET)
        return self._authorised(asked, now)

    def _wrong_host(self, asked: Asked) -> str | None:
        name = hostname(f"//{asked.headers.get('Host', '')}")
        here = is_loopback(name) or (not is_loopback(self.host) and is_address(name))
        if here or (name and name in (self.host.lower(), hostname(self.url or ""))):
            return None
        return (
            "this Flower does not answer to that host name: set ITINERARY_FLOWER_URL to the address that browsers use"
        )

    def _foreign(self, asked: Asked) -> str | None:
        """Refuse requests from pages of other sites, except following a link."""
        headers = asked.headers
        origin, own = headers.get("Origin"), {headers.get("Host", "").lower(), netloc(self.url or "")}
        site = headers.get("Sec-Fetch-Site", "none")
        if (origin is not None and netloc(origin) not in own - {""}) or (
            site not in ("same-origin", "none") and not _is_link(asked)
        ):
            return "a page of another site may not do this"
        return None

    def _redeem(self, text: str, now: Instant) -> Verdict:
        ticket = opened(text, self.password, "ticket", now)
        for nonce in [nonce for nonce, until in self._used.items() if until <= now]:
            del self._used[nonce]
        forgotten = ticket is not None and ticket.expires_at - LIFETIME["ticket"] < self.since
        if ticket is None or forgotten or ticket.nonce in self._used or not is_local_path(ticket.path):
            again = "this link was used before or is too old: go back to the dashboard and follow it again"
            return Refused(403, again, failed_login=True)
        self._used[ticket.nonce] = ticket.expires_at
        return LoggedIn(ticket)

    def _authorised(self, asked: Asked, now: Instant) -> Verdict:
        session = opened(asked.session, self.password, "session", now) if asked.session else None
        # Only where a ticket was taken before: a dashboard without Flower's password gives none.
        if session is None and asked.session and self.dashboard and _is_link(asked):
            return SentToDashboard(f"{self.dashboard.rstrip('/')}/flower?to={quote(asked.path)}")
        role = session.role if session else self._role_by_password(asked, now)
        if isinstance(role, Refused):
            return role
        reads = asked.method in _READS or (asked.method == "POST" and asked.path in _READS_BY_POST)
        if role not in ("operator", "admin") and not reads:
            return Refused(403, f"this needs the role operator; you have {role}")
        return Admitted()

    def _role_by_password(self, asked: Asked, now: Instant) -> str | Refused:
        given = asked.headers.get("Authorization")
        how = f"follow the dashboard's link, or log in as {USER} with the password"
        if given is None:
            return Refused(401, how)
        failures = [at for at in self._failures.get(asked.sender, ()) if now - at < _FAILURES_WITHIN]
        if len(failures) >= _MOST_FAILURES:  # before the password is compared, else guessing would continue
            return Refused(429, "too many failed logins: wait ten seconds", failed_login=True)
        if self._is_password(given):
            return "operator"
        if len(self._failures) >= _MOST_SENDERS:
            self._failures.clear()
        self._failures[asked.sender] = [*failures, now]
        return Refused(401, how, failed_login=True)

    def _is_password(self, header: str) -> bool:
        scheme, _, value = header.partition(" ")
        try:
            given = base64.b64decode(value.strip(), validate=True) if scheme.lower() == "basic" else b""
        except (binascii.Error, ValueError):
            return False
        return hmac.compare_digest(given, f"{USER}:{self.password}".encode())


def _is_link(asked: Asked) -> bool:
    """Whether a browser follows a link or its address bar, rather than a script or a form of a page."""
    fetch = (asked.headers.get("Sec-Fetch-Mode"), asked.headers.get("Sec-Fetch-Dest"))
    return asked.method == "GET" and fetch == ("navigate", "document")
