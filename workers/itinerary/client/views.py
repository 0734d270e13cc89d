"""The part of the client that saves views: addresses of the dashboard's lists under names."""

from itinerary.client.bulk import Bulk
from itinerary.client.results import View
from itinerary.client.transport import given, segment


class Views(Bulk):
    """Saved views of all, and the caller's own."""

    def views(self) -> list[View]:
        """Every view of all and of the caller, by name."""
        return [View.of(item) for item in self._api.object("GET", "/views")["items"]]

    def view(self, name: str) -> View:
        """The caller's own view of this name, else that of all; ApiError 404."""
        return View.of(self._api.object("GET", f"/views/{segment(name)}"))

    def put_view(self, name: str, address: str, *, personal: bool = False) -> View:
        """Save path and query of a list, such as `/runs?state=failed`, in place of what the name meant before."""
        wanted = {"address": address, "personal": personal}
        return View.of(self._api.object("PUT", f"/views/{segment(name)}", again=True, json=wanted))

    def delete_view(self, name: str, *, personal: bool = False) -> None:
        """Delete a view of all, or the caller's own."""
        self._api.send("DELETE", f"/views/{segment(name)}", params=given(personal=personal or None))
