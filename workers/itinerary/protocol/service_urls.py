"""URLs of databases, Redis and brokers: the only reader, for connecting and for showing.

Promises that a shown URL holds no password, whatever letters that has, percent-encoded or not; every reader reads
`text` as the same URL. Knows no driver.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote, unquote

from itinerary.protocol.errors import BadValue

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_HOST: Final = r"(?:\[[0-9A-Za-z:.%]+\]|[A-Za-z0-9._%-]*)(?::[0-9]{1,5})?"
_REST: Final = re.compile(rf"({_HOST}(?:,{_HOST})*)(/[^@?#\s]*)?(?:\?(.*))?", re.DOTALL)
_PAIR: Final = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*)=(.*)", re.DOTALL)
_SECRET: Final = re.compile(r"password|passwd|secret", re.IGNORECASE)
_SAFE_IN_QUERY: Final = "/:,[]*"
HIDDEN: Final = "***"


@dataclass(frozen=True, slots=True)
class ServiceUrl:
    """A URL in its parts, decoded except `path`; `hosts` are as written, host and port."""

    scheme: str
    hosts: tuple[str, ...]
    path: str = ""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    query: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def database(self) -> str:
        """The name after the hosts, decoded."""
        return unquote(self.path.removeprefix("/"))

    @property
    def text(self) -> str:
        """The URL, each part encoded as every other reader expects it."""
        return self._text(shows=True)

    @property
    def shown(self) -> str:
        """The URL for people: `***` in place of each password."""
        return self._text(shows=False)

    def _text(self, *, shows: bool) -> str:
        user = "" if self.user is None else quote(self.user, safe="")
        if self.password is not None:
            user += ":" + (quote(self.password, safe="") if shows else HIDDEN)
        at = "" if self.user is None and self.password is None else f"{user}@"
        values = (
            (name, HIDDEN if _SECRET.search(name) and not shows else quote(value, safe=_SAFE_IN_QUERY))
            for name, value in self.query
        )
        query = "&".join(f"{name}={value}" for name, value in values)
        return f"{self.scheme}://{at}{','.join(self.hosts)}{self.path}{'?' if query else ''}{query}"


def read_service_url(text: str, name: str) -> ServiceUrl:
    """The parts of a URL; BadValue for `name`, which shows nothing of it, if it has none.

    A password may hold any letters unencoded: it ends at the first `@` with hosts, a path and a query behind it.
    """
    found = _SCHEME.fullmatch(text)
    if found is None:
        raise BadValue(name, "...", "give an address with its scheme, such as redis://host:6379/0")
    scheme, rest = found.groups()
    for place in _places(rest):
        parts = _parts(rest[place + 1 :] if place >= 0 else rest)
        if parts is not None:
            hosts, path, query = parts
            user, colon, password = rest[: max(place, 0)].partition(":")
            return ServiceUrl(
                scheme, hosts, path,
                user=unquote(user) if place >= 0 and (user or not colon) else None,
                password=unquote(password) if colon else None,
                query=query,
            )  # fmt: skip
    allowed = "give scheme://user:password@host:port/name; percent-encode the password, such as %2F for / and %40 for @"
    raise BadValue(name, f"{scheme}://...", allowed)


def redis_url(text: str, name: str = "redis_url") -> str:
    """The URL as redis-py reads it: Celery spells unix sockets differently."""
    if not text.startswith("redis+socket://"):
        return read_service_url(text, name).text
    url = read_service_url("unix://" + text.removeprefix("redis+socket://"), name)
    query = tuple(("db" if key == "virtual_host" else key, value) for key, value in url.query)
    return ServiceUrl("unix", url.hosts, url.path, url.user, url.password, query).text


def in_schema(text: str, schema: str) -> str:
    """The URL of a PostgreSQL database whose sessions find tables in the schema alone."""
    try:
        url = read_service_url(text, "")
    except BadValue:
        return text  # its own check refuses it
    # PostgreSQL reads a name without quotes in small letters.
    wanted = f"-csearch_path={schema}" if schema == schema.lower() else f'-csearch_path="{schema}"'
    given = [value for name, value in url.query if name == "options"]
    if wanted in " ".join(given).split():
        return text
    others = tuple((name, value) for name, value in url.query if name != "options")
    return replace(url, query=(*others, ("options", " ".join([*given, wanted])))).text


def _places(rest: str) -> Iterator[int]:
    """The positions where user and password may end: none, then each `@`."""
    yield -1
    yield from (found.start() for found in re.finditer("@", rest))


def _parts(rest: str) -> tuple[tuple[str, ...], str, tuple[tuple[str, str], ...]] | None:
    found = _REST.fullmatch(rest)
    if found is None:
        return None
    hosts, path, query = found.groups()
    pairs = [_PAIR.fullmatch(part) for part in query.split("&")] if query else []
    if not all(pairs):
        return None
    values = tuple((pair[1], unquote(pair[2].replace("+", " "))) for pair in pairs if pair is not None)
    return tuple(hosts.split(",")), path or "", values
