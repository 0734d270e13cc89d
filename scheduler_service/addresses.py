"""Ports of this machine: which are free, and whether an HTTP server answers on one; addresses as they may be shown."""

import http.client
import re
import socket
from collections.abc import Callable, Collection
from typing import Final

from scheduler_service.core.errors import ItineraryError

NEAR = 20
_BEFORE_HOST: Final = re.compile(r"(?<=://)([^/@:\s]*):[^/@\s]*@")
_IN_QUERY: Final = re.compile(r"([?&][^=&\s]*password=)[^&\s]*", re.IGNORECASE)


def is_free(port: int, host: str) -> bool:
    """Whether `port` can be listened on just now."""
    return _bound(port, host) is not None


def free_from(first: int, host: str, taken: Collection[int] = ()) -> int:
    """The first free port from `first` on that is not `taken`; any free one where the next few are not."""
    near = (port for port in range(first, min(first + NEAR, 65536)) if port not in taken)
    found = next((port for port in near if is_free(port, host)), None) or _bound(0, host)
    if found is None:
        raise ItineraryError(f"no port can be opened on {host}: is it an address of this machine?")
    return found


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


def reachable(host: str) -> str:
    """Where to connect to a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def shown_url(text: str) -> str:
    """An address, or a text with addresses in it, without their passwords: for people and logs."""
    return _IN_QUERY.sub(r"\1***", _BEFORE_HOST.sub(r"\1:***@", text))


def _bound(port: int, host: str) -> int | None:
    """The port that could be listened on, or None; it is given back at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as probe:
            bound: int = probe.getsockname()[1]
            return bound
    except OSError:
        return None
