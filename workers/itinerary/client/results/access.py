"""Who is signed in, which pages are shared, which views are saved."""

from dataclasses import dataclass
from datetime import datetime

from itinerary.client.results.record import Record


@dataclass(frozen=True, eq=False)
class BrowserSession(Record):
    """A browser that is signed in; `issuer` None: with a token."""

    session_id: int
    name: str
    issuer: str | None
    browser: str
    address: str | None
    started_at: datetime
    seen_at: datetime
    ends_at: datetime


@dataclass(frozen=True, eq=False)
class ShareLink(Record):
    """A link that shows one page to somebody without a login."""

    link_id: int
    page: str
    created_by: str
    created_at: datetime
    ends_at: datetime


@dataclass(frozen=True, eq=False)
class CreatedShareLink(ShareLink):
    """A new link: `path` has its secret, which no other answer has."""

    path: str


@dataclass(frozen=True, eq=False)
class View(Record):
    """The address of a list of the dashboard under a name; `personal`: for the caller alone."""

    name: str
    address: str
    personal: bool
    saved_by: str
    updated_at: datetime
