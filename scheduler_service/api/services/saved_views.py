"""Saved views as requests: whose they are, and which addresses they may have. Shared by REST and pages.

Promises that a view leads to a list or queue of this dashboard and nowhere else, by a path that is known here.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl, urlencode

from itinerary.protocol.errors import BadValue, NotFound
from itinerary.protocol.identity import QUEUE
from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.auth import demand
from scheduler_service.api.http.problems import Problem
from scheduler_service.core.audit import THIS_MACHINE, Caller
from scheduler_service.core.saved_views import SHARED, VIEW_NAME, SavedView
from scheduler_service.flower_server.tickets import is_local_path

_PAGES: Final = ("/jobs", "/runs", "/timeline", "/calendar", "/failures", "/workers", "/explain", "/audit")
_NAMED: Final = ", ".join((*_PAGES, "/queues/NAME"))
_QUEUE: Final = "/queues/"
_NOT_KEPT: Final = ("cursor", "done")


def has_views(path: str) -> bool:
    """Whether the page is one that is chosen by a filter, which a view may keep: a list, or a queue."""
    return path in _PAGES or (path.startswith(_QUEUE) and QUEUE.fullmatch(path.removeprefix(_QUEUE)) is not None)


def views_of(context: ApiContext, who: Caller) -> Sequence[SavedView]:
    """Return the views that the caller sees: those of all, and its own."""
    return context.stores.saved_views.list(*dict.fromkeys((SHARED, _own(who))))


def view_of(context: ApiContext, who: Caller, name: str) -> SavedView:
    """Return the caller's own view of this name, else that of all; NotFound."""
    if not VIEW_NAME.fullmatch(name):
        raise NotFound("no saved view with such a name")
    for owner in dict.fromkeys((_own(who), SHARED)):
        try:
            return context.stores.saved_views.get(owner, name)
        except NotFound:
            continue
    raise NotFound(f"no saved view {name}")


def save_view(context: ApiContext, who: Caller, name: str, address: str, *, personal: bool) -> SavedView:
    """Save the address under the name; BadValue for an address that no view may have."""
    owner = _owner(who, "saving", personal=personal)
    if not VIEW_NAME.fullmatch(name):
        raise BadValue(
            "name", name, "give 1 to 60 letters, digits, spaces or . , : ( ) & + - _, a letter or digit at both ends"
        )
    kept = address_to_save(address)
    return context.stores.saved_views.save(owner, name, kept, by=who.audited_change("view.save"))


def delete_view(context: ApiContext, who: Caller, name: str, *, personal: bool) -> None:
    """Delete the view; NotFound."""
    owner = _owner(who, "deleting", personal=personal)
    if not VIEW_NAME.fullmatch(name):
        raise NotFound("no saved view with such a name")
    context.stores.saved_views.delete(owner, name, by=who.audited_change("view.delete"))


def address_to_save(address: str) -> str:
    """Return the address as it is kept: path and query, without the place in the list; BadValue."""
    path, _, query = address.partition("?")
    if not has_views(path) or not is_local_path(address):
        raise BadValue(
            "address", address[:100], f"give path and query, in at most 2,000 characters, of one of {_NAMED}"
        )
    return kept_address(path, query)


def kept_address(path: str, query: str) -> str:
    """Return path and query without empty fields and the place in the list."""
    kept = urlencode([pair for pair in parse_qsl(query) if pair[0] not in _NOT_KEPT])
    return f"{path}?{kept}" if kept else path


def has_own(who: Caller) -> bool:
    """Whether the caller is somebody in particular, who may have views of its own."""
    return who != THIS_MACHINE


def _own(who: Caller) -> str:
    return who.name if has_own(who) else SHARED


def _owner(who: Caller, doing: str, *, personal: bool) -> str:
    if personal and not has_own(who):
        raise Problem(422, "nobody signs in here, so there are no personal views; save it for all")
    if not personal:
        demand(who, "operator", f"{doing} a view for all")
    return _own(who) if personal else SHARED
