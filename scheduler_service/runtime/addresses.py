"""Ports of this machine: which are free, and for whom; whether HTTP is answered; addresses as they may be shown."""

import errno
import http.client
import ipaddress
import re
import socket
from collections.abc import Callable
from typing import Final

from itinerary.protocol.errors import ItineraryError

_NEAR: Final = 20
# Of a web address everything behind a `/` is its path; in others that may be part of a password.
_BEFORE_HOST: Final = re.compile(
    r"(\bhttps?://[^/@:\s]*):[^/@\s]*@|(\b(?!https?:)[a-z][a-z0-9+.-]*://[^/@:\s]*):\S*@", re.I
)
_NAMED: Final = re.compile(
    r"(\b[a-z_]*(?:password|passwd)\s*=\s*)(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^&\s'\",)]*)", re.IGNORECASE
)


def is_free(port: int, host: str) -> bool:
    """Whether `port` can be listened on just now."""
    return _bound(port, host) is not None


class Ports:
    """The ports that this process chose and that its parts will listen on, kept from others who choose like this.

    What is held is the UDP port of the same number: whoever was chosen for it opens the TCP port itself, and whatever
    becomes of this process, nothing is left to clear away.
    """

    def __init__(self) -> None:
        self._held: dict[int, socket.socket] = {}

    def __enter__(self) -> "Ports":
        return self

    def __exit__(self, *exc: object) -> None:
        for holder in self._held.values():
            holder.close()
        self._held.clear()

    def take(self, port: int, host: str) -> bool:
        """Take just this one, whoever holds its number; whether it is free."""
        if port in self._held or not is_free(port, host):
            return False
        self._hold(port)
        return True

    def take_from(self, first: int, host: str) -> int:
        """Take the first from `first` on that is free and that nobody holds; any free one where none is near."""
        near = range(first, min(first + _NEAR, 65536))
        found = next((port for port in near if is_free(port, host) and self._hold(port)), None) or _bound(0, host)
        if found is None:
            raise ItineraryError(f"no port can be opened on {host}: is it an address of this machine?")
        return found

    def _hold(self, port: int) -> bool:
        """Whether nobody else held it; where this cannot be known, nobody did."""
        holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            holder.bind(("127.0.0.1", port))
        except OSError as exc:
            holder.close()
            return exc.errno != errno.EADDRINUSE
        self._held[port] = holder
        return True


def answers(host: str, port: int, path: str) -> Callable[[], bool]:
    """A question, answered within about a second: does an HTTP server there answer without an error of its own."""

    def ask() -> bool:
        connection = http.client.HTTPConnection(reachable(host), port, timeout=1)
        try:
            connection.request("GET", path)
            return connection.getresponse().status < 500
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return ask


def http_url(host: str, port: int) -> str:
    """The address of an HTTP server that listens on `host`, as this machine reaches it."""
    name = reachable(host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def is_loopback(host: str) -> bool:
    """Whether an address or name of the Host header means this machine."""
    name = host.strip("[]").lower()
    parts = name.split(".")
    dotted = len(parts) == 4 and parts[0] == "127" and all(part.isdigit() for part in parts)
    return dotted or name in ("::1", "localhost") or name.endswith(".localhost")


def is_address(host: str) -> bool:
    """Whether a name of the Host header is an IP address, which no foreign name server can choose."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def reachable(host: str) -> str:
    """Where to connect to a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def shown_url(text: str) -> str:
    """An address, or a text with addresses in it, without their passwords: for people and logs.

    Addresses of settings were read by itinerary/protocol/service_urls.py, which leaves no odd letter in a password.
    """
    return _NAMED.sub(r"\1***", _BEFORE_HOST.sub(r"\1\2:***@", text))


def _bound(port: int, host: str) -> int | None:
    """The port that could be listened on, or None; it is given back at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as probe:
            bound: int = probe.getsockname()[1]
            return bound
    except OSError:
        return None
