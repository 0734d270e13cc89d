"""The part of the client that shows and ends sessions and share links.

Promises what `itinerary.client.sync` promises: a request is repeated only where that has no more effect than one.
"""

from itinerary.client.controls import Controls
from itinerary.client.results import BrowserSession, CreatedShareLink, ShareLink
from itinerary.client.transport import given


class Access(Controls):
    """Sessions of browsers, and links that share pages."""

    def sessions(self) -> list[BrowserSession]:
        """The browsers that are signed in, those in use last first."""
        return [BrowserSession.of(item) for item in self._api.object("GET", "/sessions")["items"]]

    def end_session(self, session_id: int) -> None:
        """End a session: its browser signs in again."""
        self._api.send("DELETE", f"/sessions/{session_id}")

    def share_links(self) -> list[ShareLink]:
        """The links that last, the newest first."""
        return [ShareLink.of(item) for item in self._api.object("GET", "/share-links")["items"]]

    def share_page(self, page: str, lasts: str | None = None) -> CreatedShareLink:
        """Share a page, such as "/jobs?q=mail", for 7 days or so long; `path` of the link has its secret."""
        return CreatedShareLink.of(self._api.object("POST", "/share-links", json=given(page=page) | _for(lasts)))

    def revoke_share_link(self, link_id: int) -> None:
        """Revoke a link: it shows nothing any more."""
        self._api.send("DELETE", f"/share-links/{link_id}")


def _for(lasts: str | None) -> dict[str, str]:
    return {} if lasts is None else {"for": lasts}
