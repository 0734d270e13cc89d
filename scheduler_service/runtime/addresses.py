"""Ports and addresses of this machine: free ports, HTTP checks, and addresses in a form safe to show."""

import errno
import http.client
import ipaddress
import re
import socket
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from itinerary.protocol.errors import ItineraryError

_NEAR: Final = 20
# Everything after a `/` is the path of a web address; in other addresses it may be part of a password.
_BEFORE_HOST: Final = re.compile(
    r"(\bhttps?://[^/@:\s]*):[^/@\s]*@|(\b(?!https?:)[a-z][a-z0-9+.-]*://[^/@:\s]*):\S*@", re.I
)
_NAMED: Final = re.compile(
    r"(\b[a-z_]*(?:password|passwd)\s*=\s*)(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^&\s'\",)]*)", re.IGNORECASE
)


def is_free(port: int, host: str) -> bool:
    """Whether `port` can be listened on now."""
    return _bound(port, host) is not None


class Ports:
    """Ports that this process chose for its parts, reserved against other processes that choose in the same way.

    A reservation is the UDP port of the same number, so the part can open the TCP port itself. The system removes the
    reservation with the process.
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
        """Reserve exactly this port, even if another process reserved its number; return whether it is free."""
        if port in self._held or not is_free(port, host):
            return False
        self._hold(port)
        return True

    def take_from(self, first: int, host: str) -> int:
        """Reserve the first free port from `first` on that nobody reserved; any free one if none is near."""
        near = range(first, min(first + _NEAR, 65536))
        found = next((port for port in near if is_free(port, host) and self._hold(port)), None) or _bound(0, host)
        if found is None:
            raise ItineraryError(f"no port can be opened on {host}; give an address of this machine")
        return found

    def _hold(self, port: int) -> bool:
        """Reserve the number; return whether nobody else had, which is assumed where it cannot be checked."""
        holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            holder.bind(("127.0.0.1", port))
        except OSError as exc:
            holder.close()
            return exc.errno != errno.EADDRINUSE
        self._held[port] = holder
        return True


def answers(host: str, port: int, path: str) -> Callable[[], bool]:
    """A check, which takes about a second at most, whether an HTTP server answers there without an error of its own."""

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
    """The URL of an HTTP server that listens on `host`, as reached from this machine."""
    name = reachable(host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def is_loopback(host: str) -> bool:
    """Whether an address or name in the Host header means this machine."""
    name = host.strip("[]").lower()
    parts = name.split(".")
    dotted = len(parts) == 4 and parts[0] == "127" and all(part.isdigit() for part in parts)
    return dotted or name in ("::1", "localhost") or name.endswith(".localhost")


def is_address(host: str) -> bool:
    """Whether a name in the Host header is an IP address, which no foreign name server can choose."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def hostname(url: str) -> str:
    """The host's name in an address, in small letters; empty where there is none or it cannot be read."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def netloc(url: str) -> str:
    """The host with its port, as an Origin and a Host header have it, in small letters; empty as `hostname`."""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def reachable(host: str) -> str:
    """The host to connect to for a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def shown_url(text: str) -> str:
    """An address, or a text with addresses in it, without their passwords: for people and logs.

    Addresses in settings were read by itinerary/protocol/service_urls.py, which leaves no special letter in a password.
    """
    return _NAMED.sub(r"\1***", _BEFORE_HOST.sub(r"\1\2:***@", text))


def _bound(port: int, host: str) -> int | None:
    """The port if it could be listened on, else None; it is released at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as probe:
            bound: int = probe.getsockname()[1]
            return bound
    except OSError:
        return None
