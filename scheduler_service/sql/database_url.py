"""Database URLs in the form that SQLAlchemy and libpq need, read by itinerary/protocol/service_urls.py."""

import re
from typing import Any, Final
from urllib.parse import parse_qsl

from sqlalchemy import URL
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from itinerary.protocol.errors import BadValue
from itinerary.protocol.service_urls import read_service_url

_ALLOWED: Final = "give sqlite:///path or postgresql://user:password@host/database"
_OPTIONS: Final = re.compile(r"(\w+=[^?/&]*(&|$))*")
_POSTGRES: Final = ("postgresql", "postgres", "postgresql+psycopg")


def read_url(text: str) -> URL:
    """Read `postgresql://`, `postgres://` or `sqlite:///path` as SQLAlchemy's URL with our drivers; else BadValue.

    Several hosts become several `host` values of its query, each with its port.
    """
    scheme, colon, path = text.partition(":///")
    if colon and scheme in ("sqlite", "sqlite+pysqlite"):
        file, _, options = path.partition("?")
        if file in ("", ":memory:"):
            raise BadValue("database_url", text, _ALLOWED)
        if not _OPTIONS.fullmatch(options):
            raise BadValue("database_url", text, "give a path without ?, which begins options (?name=value)")
        return URL.create("sqlite+pysqlite", database=file, query=dict(parse_qsl(options)))
    url = read_service_url(text, "database_url")
    if url.scheme not in _POSTGRES:
        raise BadValue("database_url", f"{url.scheme}://...", _ALLOWED)
    query: dict[str, tuple[str, ...] | str] = {}
    for name, value in url.query:
        known = query.get(name, ())
        query[name] = (*((known,) if isinstance(known, str) else known), value) if known else value
    host, port = None, None
    if len(url.hosts) > 1:
        query["host"] = url.hosts
    else:
        host, port = _split(url.hosts[0])
    return URL.create("postgresql+psycopg", url.user or None, url.password, host, port, url.database or None, query)


def libpq_options(url: URL) -> dict[str, Any]:
    """The options with which psycopg connects by itself, as SQLAlchemy derives them."""
    dialect: Any = PGDialect_psycopg  # SQLAlchemy leaves its methods untyped
    return dict(dialect().create_connect_args(url)[1])


def _split(host: str) -> tuple[str | None, int | None]:
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        port = port.removeprefix(":")
    else:
        name, _, port = host.partition(":")
    return name or None, int(port) if port else None
