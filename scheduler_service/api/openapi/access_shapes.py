"""The shapes of sessions, share links and saved views, for the OpenAPI document."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from scheduler_service.api.openapi.patterns import STORABLE, Duration, Time
from scheduler_service.api.openapi.schedule_schemas import Strict


class SessionOut(BaseModel):
    """The session of one browser that is signed in."""

    session_id: int
    name: str
    issuer: str | None = Field(description="The identity provider; null: signed in with a token")
    browser: str
    address: str | None = Field(description="Where it was begun; null if an older release began it")
    started_at: Time
    seen_at: Time
    ends_at: Time = Field(description="When it ends at the latest")


class Sessions(BaseModel):
    """The sessions that last, those in use last first."""

    items: list[SessionOut]


class ShareLinkIn(Strict):
    """A page to share."""

    page: Annotated[str, Field(min_length=1, max_length=2000, pattern=STORABLE, description="Its path and query")]
    lasts: Duration = Field("7d", alias="for", description="An hour to 90 days")


class ShareLinkOut(BaseModel):
    """A link that shows one page; its secret is in the answer that created it alone."""

    link_id: int
    page: str
    created_by: str
    created_at: Time
    ends_at: Time


class CreatedShareLink(ShareLinkOut):
    """A new link; `path` has the secret."""

    path: str


class ShareLinks(BaseModel):
    """The links that last, the newest first."""

    items: list[ShareLinkOut]


class ViewIn(Strict):
    """The address of a list under a name."""

    address: Annotated[str, Field(min_length=1, max_length=2000, pattern=STORABLE, description="Its path and query")]
    personal: bool = Field(False, description="For the caller alone; by default for all")


class ViewOut(BaseModel):
    """A saved view."""

    name: str
    address: str
    personal: bool
    saved_by: str
    updated_at: Time


class Views(BaseModel):
    """The views of all and the caller's own, by name."""

    items: list[ViewOut]


_VIEW: Final = {
    "name": "failed today", "address": "/runs?state=failed&since=today", "personal": False, "saved_by": "ann",
    "updated_at": "2026-12-01T01:00:00Z",
}  # fmt: skip
_LINK: Final = {
    "link_id": 3, "page": "/jobs?q=billing", "created_by": "ann", "created_at": "2026-12-01T01:00:00Z",
    "ends_at": "2026-12-08T01:00:00Z",
}  # fmt: skip
_SESSION: Final = {
    "session_id": 17, "name": "ann@example.com (https://id.example)", "issuer": "https://id.example",
    "browser": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0", "address": "192.0.2.7",
    "started_at": "2026-12-01T01:00:00Z", "seen_at": "2026-12-01T02:00:00Z", "ends_at": "2026-12-01T13:00:00Z",
}  # fmt: skip
ACCESS_EXAMPLES: Final[dict[str, Any]] = {
    "SessionOut": _SESSION, "Sessions": {"items": [_SESSION]}, "ShareLinkOut": _LINK, "ShareLinks": {"items": [_LINK]},
    "ViewIn": {"address": "/runs?state=failed&since=today"}, "ViewOut": _VIEW, "Views": {"items": [_VIEW]},
    "ShareLinkIn": {"page": "/jobs?q=billing", "for": "7d"},
    "CreatedShareLink": _LINK | {"path": "/shared/0bX3kJm7s1Qx9yTtVw2Zr5aN8cE4hL6pUoIiSdFgHjK"},
}  # fmt: skip
