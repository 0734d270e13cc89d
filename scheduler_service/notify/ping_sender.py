"""Sends one ping: a GET to a checked address, bounded in time. Sends nothing but the address; shows no part of it."""

from collections.abc import Callable
from urllib.parse import urlsplit

from itinerary.net import safe_http
from itinerary.net.safe_http import CallFailed, CallRefused, Reach
from scheduler_service.core.pings import Ping
from scheduler_service.notify.masking import masked
from scheduler_service.ports.pings import PingFailed
from scheduler_service.version import VERSION

TIMEOUT = 10.0


def sender_of(allow_private: bool) -> Callable[[Ping], None]:
    """Return the sender; the setting of webhooks allows private addresses here too."""
    reach = Reach(allow_private, "ITINERARY_NOTIFY_ALLOW_PRIVATE=true")

    def send(ping: Ping) -> None:
        try:
            safe_http.call(ping.url, "GET", {"User-Agent": f"itinerary/{VERSION}"}, None, TIMEOUT, reach)
        except CallFailed as exc:
            is_status = exc.status is not None and exc.status >= 400
            text = f"{urlsplit(ping.url).hostname} answered {exc.status}" if is_status else str(exc)
            raise PingFailed(masked(text, ping.url)) from exc
        except CallRefused as exc:
            raise PingFailed(masked(str(exc), ping.url)) from exc

    return send
