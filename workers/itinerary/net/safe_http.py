"""One HTTP call that cannot be turned against the network it is made from.

Promises http and https only. The name is resolved once, all its addresses are checked, and the connection goes to a
checked one. Each redirect is checked again; time and size are bounded. Never uses proxies of the environment, never
puts a URL's path or query into an error. Shared by the workers' HTTP task, webhooks and subscribed calendars; standard
library only.
"""

import http.client
import ipaddress
import json
import re
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

from itinerary.net.bounded import Fuse, addresses_of, connected, left

_BODY_LIMIT: Final = 32 * 1024
_LONGEST: Final = 3600.0
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_OURS: Final = {"host", "content-length", "transfer-encoding", "connection", "expect", "upgrade"}
# Headers kept on a redirect to another host: nobody can tell which of a caller's other headers are secret.
_HARMLESS: Final = {"accept", "accept-encoding", "accept-language", "content-language", "content-type", "user-agent"}
PRINTABLE: Final = re.compile(r"[!-~]+")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile("[\t -~\u00a0-\u00ff]*")
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
# Reserved, but public in the tables of older Pythons: documentation (RFC 9637) and the former 6to4 relays.
_RESERVED: Final = (ipaddress.ip_network("3fff::/20"), ipaddress.ip_network("192.88.99.0/24"))

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class CallRefused(ValueError):
    """The call is not allowed as requested; the job's author can correct it."""


class CallFailed(Exception):
    """The other side answered with an error (`status`), too slowly or too much, or redirected too often."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Reach:
    """Limits of a call; `allowed_by` names the setting that allows addresses that are not public."""

    private: bool
    allowed_by: str
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class _Request:
    url: SplitResult
    method: str
    headers: Mapping[str, str]
    body: bytes | None
    reach: Reach
    most_bytes: int = _BODY_LIMIT

    @property
    def where(self) -> str:
        """Scheme and host: all that errors may show."""
        return f"{self.url.scheme}://{self.url.hostname}"


class Fetched(NamedTuple):
    """An answer as it came: status, headers by their lower-case names, the body as far as it was allowed and came."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool
    is_short: bool


def call(url: str, method: str, headers: Mapping[str, str], body: Any, timeout: float, reach: Reach) -> dict[str, Any]:
    """Status, headers and text of the answer; `timeout` in seconds covers all of it, redirects too."""
    answer = _follow(_checked(url, method, headers, body, reach), timeout)
    return {
        "status": answer.status, "headers": answer.headers, "body": answer.body.decode("utf-8", "replace"),
        "cut": answer.is_cut,
    }  # fmt: skip


def fetch(url: str, headers: Mapping[str, str], timeout: float, reach: Reach, most_bytes: int) -> Fetched:
    """The whole answer to a GET; CallFailed for one over `most_bytes`, cut short on its way, or compressed."""
    asked = replace(
        _checked(url, "GET", {**headers, "Accept-Encoding": "identity"}, None, reach), most_bytes=most_bytes
    )
    answer = _follow(asked, timeout)
    if answer.is_cut:
        raise CallFailed(f"{asked.where} answered with over {most_bytes:,} bytes", answer.status)
    if answer.is_short:
        raise CallFailed(f"{asked.where} ended its answer early", answer.status)
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise CallFailed(f"{asked.where} answered compressed, though it was asked not to", answer.status)
    return answer


def _follow(request: _Request, timeout: float) -> Fetched:
    if not 0 < timeout <= _LONGEST:
        raise CallRefused(f"timeout must be over 0 and at most {_LONGEST:g} seconds")
    deadline = time.monotonic() + timeout
    reach = request.reach
    for _ in range(reach.redirects + 1):
        answer, location = _once(request, deadline)
        if location is None:
            return _accepted(request, answer)
        if not reach.redirects:
            raise CallFailed(f"{request.where} answered {answer.status}: redirects are not followed")
        request = _redirected(request, answer.status, location)
    raise CallFailed(f"{request.where} redirected more than {reach.redirects} times")


def _checked(url: str, method: str, headers: Mapping[str, str], body: Any, reach: Reach) -> _Request:
    if method.upper() not in _METHODS:
        raise CallRefused(f"method must be one of {', '.join(_METHODS)}")
    sent = {name: str(value) for name, value in headers.items()}
    for name, value in sent.items():
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            raise CallRefused(f"header {name[:100]!r} cannot be sent: use one line of printable Latin-1")
        if name.lower() in _OURS:
            raise CallRefused(f"header {name} is set by the call itself")
    if body is None or isinstance(body, str):
        encoded = None if body is None else body.encode()
    else:
        encoded = json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **sent}
    return _Request(checked_url(url), method.upper(), sent, encoded, reach)


def checked_url(url: str) -> SplitResult:
    """The parts of a URL that may be called; CallRefused otherwise."""
    if not PRINTABLE.fullmatch(url):
        raise CallRefused("url must be printable ASCII without spaces; write anything else as %XX")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise CallRefused("url cannot be read") from exc
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise CallRefused("url must start with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None:
        raise CallRefused("url must not hold a user or password; use a header")
    return parts


def _once(request: _Request, deadline: float) -> tuple[Fetched, str | None]:
    connection = _Connection(request.url, deadline, request.reach)
    target = request.url.path or "/"
    if request.url.query:
        target += f"?{request.url.query}"
    try:
        connection.request(request.method, target, body=request.body, headers=dict(request.headers))
        response = connection.getresponse()
        answer = _read(response, request.most_bytes)
    except (OSError, http.client.HTTPException) as exc:
        if isinstance(exc, TimeoutError) or connection.cut_off:
            raise CallFailed(f"{request.where} did not answer in time") from exc
        raise CallFailed(f"{request.where}: {type(exc).__name__}: {exc}") from exc
    finally:
        connection.stand_down()
    if connection.cut_off:
        raise CallFailed(f"{request.where} did not answer in time")
    location = response.getheader("Location") if response.status in (301, 302, 303, 307, 308) else None
    return answer, location


def _read(response: http.client.HTTPResponse, most_bytes: int) -> Fetched:
    """The answer with the start of its body."""
    body = response.read(most_bytes + 1)
    is_cut = len(body) > most_bytes
    headers = {name.lower(): value[:1024] for name, value in response.getheaders()[:50]}
    return Fetched(response.status, headers, body[:most_bytes], is_cut, not is_cut and bool(response.length))


def _accepted(request: _Request, answer: Fetched) -> Fetched:
    if answer.status >= 400:
        text = answer.body[:2_000].decode("utf-8", "replace")[:500]
        raise CallFailed(f"{request.where} answered {answer.status}: {text}", answer.status)
    return answer


def _redirected(request: _Request, status: int, location: str) -> _Request:
    try:
        target = checked_url(urljoin(request.url.geturl(), location))
    except ValueError as exc:  # CallRefused too: only the other side can correct it
        why = exc if isinstance(exc, CallRefused) else "url cannot be read"
        raise CallFailed(f"{request.where} redirected to what cannot be called: {why}", status) from exc
    elsewhere = (target.scheme, target.netloc) != (request.url.scheme, request.url.netloc)
    kept = {n: v for n, v in request.headers.items() if not elsewhere or n.lower() in _HARMLESS}
    if status in (307, 308) or request.method in ("GET", "HEAD"):
        return replace(request, url=target, headers=kept)
    kept = {n: v for n, v in kept.items() if n.lower() != "content-type"}
    return replace(request, url=target, method="GET", headers=kept, body=None)


class _Connection(http.client.HTTPConnection):
    """A connection to a checked address, with TLS for the requested name, cut off at the deadline."""

    def __init__(self, url: SplitResult, deadline: float, reach: Reach) -> None:
        self._tls = url.scheme == "https"
        super().__init__(url.hostname or "", url.port or (443 if self._tls else 80))
        self._deadline = deadline
        self._reach = reach
        self._fuse: Fuse | None = None

    @property
    def cut_off(self) -> bool:
        """Whether the deadline came before the end."""
        return self._fuse is not None and self._fuse.blown

    def connect(self) -> None:
        """Resolve, check all addresses, connect to the first that answers."""
        addresses = checked_addresses(self.host, self.port, self._reach, self._deadline)
        self.sock = connected(addresses, self.port, self._deadline)
        self._fuse = Fuse(self.sock, self._deadline)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.settimeout(left(self._deadline))
        if self._tls:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)

    def stand_down(self) -> None:
        """Disarm the deadline: the exchange is over."""
        if self._fuse is not None:
            self._fuse.stand_down()
        self.close()


def checked_addresses(host: str, port: int, reach: Reach, deadline: float) -> list[str]:
    """All addresses of `host`; CallRefused if one of them is not public and may not be called."""
    try:
        addresses = addresses_of(host, port, deadline)
    except TimeoutError:
        raise
    except (OSError, UnicodeError) as exc:
        raise CallFailed(f"{host[:100]} cannot be resolved") from exc
    if not reach.private:
        for address in addresses:
            if not is_public(address):
                raise CallRefused(f"{host[:100]} has an address that is not public; {reach.allowed_by} allows it")
    return addresses


def is_public(text: str) -> bool:
    """Whether an address, and any address wrapped in it, belongs to the public internet."""
    address = ipaddress.ip_address(text.partition("%")[0])
    return all(map(_is_public, _unwrapped(address)))


def _is_public(address: Address) -> bool:
    is_site_local = isinstance(address, ipaddress.IPv6Address) and address.is_site_local  # is_global calls it public
    if any(address in network for network in _RESERVED):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or is_site_local)


def _unwrapped(address: Address) -> list[Address]:
    inner: list[Address] = []
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return [address.ipv4_mapped]
        if address in _NAT64:
            return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
        inner.extend(one for one in (address.sixtofour, *(address.teredo or ())) if one is not None)
    return [address, *inner]
