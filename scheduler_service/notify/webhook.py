"""A webhook as a Target: one signed POST by the Standard Webhooks convention, to a checked address, never redirected.

Signs `id.timestamp.body` with HMAC-SHA256; every try has the same `webhook-id`, by which the receiver detects repeats.
"""

import base64
import hmac
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from itinerary.net import safe_http
from itinerary.net.safe_http import CallFailed, CallRefused, Reach
from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.notify.masking import digest, masked
from scheduler_service.ports.notices import Delivery, DeliveryFailed, DeliveryRefused, Target
from scheduler_service.version import VERSION

TIMEOUT: Final = 10.0
_GONE: Final = 410


class Webhook(Target):
    """The target of one webhook URL."""

    def __init__(self, url: str, key: bytes, *, private: bool, clock: Callable[[], Instant]) -> None:
        self._url = url
        self._key = key
        self._reach = Reach(private, "ITINERARY_NOTIFY_ALLOW_PRIVATE=true", redirects=0)
        self._clock = clock

    @property
    def name(self) -> str:
        """The host and a digest of the URL, whose path or query may be a secret."""
        return f"{urlsplit(self._url).hostname}#{digest(self._url)}"

    def deliver(self, delivery: Delivery) -> str:
        timestamp = self._clock() // SECOND
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"itinerary/{VERSION}",
            "webhook-id": delivery.message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(self._key, delivery.message_id, timestamp, delivery.body),
        }
        try:
            answer = safe_http.call(self._url, "POST", headers, delivery.body, TIMEOUT, self._reach)
        except CallRefused as exc:
            raise DeliveryRefused(str(exc)) from exc
        except CallFailed as exc:
            raise (DeliveryRefused if exc.status == _GONE else DeliveryFailed)(masked(str(exc), self._url)) from exc
        return f"answered {answer['status']}"


def signature(key: bytes, message_id: str, timestamp: int, body: str) -> str:
    """The `webhook-signature` of a body: version 1, then the MAC in base64."""
    signed = hmac.digest(key, f"{message_id}.{timestamp}.{body}".encode(), "sha256")
    return f"v1,{base64.b64encode(signed).decode()}"
