"""Addresses of a Redis behind Sentinels: `sentinel://:password@one:26379,two:26379/0?master=name`, ours and Celery's.

Promises that both forms name the same server. Celery's has one URL for each Sentinel, and the name of the master in
`broker_transport_options`. Pure; knows no driver.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.service_urls import ServiceUrl, read_service_url

SCHEME: Final = "sentinel"
_PORT: Final = 26379
_NAMES: Final = {"master", "sentinel_username", "sentinel_password"}
_ALLOWED: Final = "give sentinel://:password@host1:26379,host2:26379/0?master=NAME"


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    """The Sentinels, the name of their master, and how to log in at both."""

    hosts: tuple[tuple[str, int], ...]
    master: str
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)

    @property
    def login(self) -> dict[str, str]:
        """The login of the master, as redis-py names it."""
        return _given(username=self.username, password=self.password)

    @property
    def sentinel_login(self) -> dict[str, str]:
        """The login of the Sentinels, as redis-py names it."""
        return _given(username=self.sentinel_username, password=self.sentinel_password)

    @property
    def text(self) -> str:
        """Our form."""
        query = _given(
            master=self.master, sentinel_username=self.sentinel_username, sentinel_password=self.sentinel_password
        )
        hosts = tuple(map(_joined, self.hosts))
        return ServiceUrl(SCHEME, hosts, f"/{self.db}", self.username, self.password, tuple(query.items())).text

    @property
    def broker_url(self) -> str:
        """Celery's form: one URL for each Sentinel."""
        each = (
            ServiceUrl(SCHEME, (_joined(host),), f"/{self.db}", self.username, self.password) for host in self.hosts
        )
        return ";".join(one.text for one in each)

    @property
    def transport_options(self) -> dict[str, Any]:
        """The part of Celery's form that belongs into `broker_transport_options`."""
        return {"master_name": self.master, "sentinel_kwargs": self.sentinel_login}


def is_sentinel(url: str) -> bool:
    """Whether the URL, ours or Celery's, is of a Redis behind Sentinels."""
    return url.startswith(f"{SCHEME}://")


def read_sentinel_url(text: str, name: str = "redis_url") -> SentinelUrl:
    """Our form; BadValue for `name`, without a password in it, if a part is missing or unknown."""
    url = read_service_url(text, name)
    query = dict(url.query)
    unknown = sorted(set(query) - _NAMES)
    if unknown:
        raise BadValue(name, "...", f"{_ALLOWED}; {unknown[0]} is not known there")
    if not query.get("master"):
        raise BadValue(name, "...", f"{_ALLOWED}: the name that the Sentinels monitor is missing")
    return SentinelUrl(
        tuple(_split(host, name) for host in url.hosts), query["master"], _db(url, name),
        url.user or None, url.password or None, query.get("sentinel_username"), query.get("sentinel_password"),
    )  # fmt: skip


def celerys_sentinel_url(broker: Sequence[str], options: Mapping[str, Any]) -> str:
    """Our form of an app's URLs and `broker_transport_options`; BadValue if they name no master."""
    urls = [read_service_url(text, "broker_url") for text in broker]
    login = options.get("sentinel_kwargs") or {}
    found = SentinelUrl(
        tuple(_split(url.hosts[0], "broker_url") for url in urls), str(options.get("master_name") or ""),
        _db(urls[0], "broker_url"), urls[0].user or None, urls[0].password or None,
        login.get("username"), login.get("password"),
    )  # fmt: skip
    if not found.master:
        advice = "put the name that the Sentinels monitor into broker_transport_options"
        raise BadValue("master_name", None, advice)
    return found.text


def _db(url: ServiceUrl, name: str) -> int:
    number = url.database or "0"
    if not (number.isascii() and number.isdecimal()):
        raise BadValue(name, "...", _ALLOWED)
    return int(number)


def _split(host: str, name: str) -> tuple[str, int]:
    """Host and port; a numeric address of IPv6 has brackets in a URL only."""
    address, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        address, port = host, str(_PORT)
    address = address.removeprefix("[").removesuffix("]")
    if not address or not 0 < int(port) < 65536:
        raise BadValue(name, "...", _ALLOWED)
    return address, int(port)


def _joined(host: tuple[str, int]) -> str:
    address, port = host
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}
