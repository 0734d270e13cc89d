"""The values of the NOTIFY_* settings and of SMTP_URL, read and checked. No error shows a secret."""

import base64
import binascii
import re
from dataclasses import dataclass, field
from email.utils import parseaddr
from typing import Annotated, Any, Final, Literal
from urllib.parse import unquote, urlsplit

from pydantic import BeforeValidator
from pydantic_settings import NoDecode

from itinerary.net.safe_http import PRINTABLE, CallRefused, checked_url
from scheduler_service.core.notifications.topics import TOPICS, Topic

_PREFIX: Final = "whsec_"
_SHORTEST_KEY: Final = 24
_CREATE_ONE: Final = 'give whsec_ and the base64 of 24 bytes or more, as of: echo "whsec_$(openssl rand -base64 32)"'
_PORTS: Final = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
_ADDRESS: Final = re.compile(r"[^@\s<>,;]{1,64}@[^@\s<>,;]{1,255}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """The server that mail is submitted to."""

    security: Literal["smtp", "smtp+starttls", "smtps"]
    host: str
    port: int
    user: str | None
    password: str | None = field(repr=False)


def read_smtp_url(text: str) -> SmtpServer:
    """Parse `smtps://user:password@host:port` and its variants; ValueError with the accepted forms."""
    allowed = "give smtps://user:password@host, smtp+starttls://user:password@host or smtp://host, also with :port"
    if not PRINTABLE.fullmatch(text):
        raise ValueError(f"must be printable ASCII without spaces; {allowed}")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as exc:
        raise ValueError(allowed) from exc
    if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/") or parts.query or port == 0:
        raise ValueError(allowed)
    if parts.scheme == "smtp" and parts.password:
        raise ValueError("smtp:// would send the password in the clear; give smtp+starttls:// or smtps://")
    user, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
    for name, part in (("user", user), ("password", password)):
        if part is not None and not (part.isascii() and part.isprintable()):
            raise ValueError(f"its {name} must be printable ASCII")
    return SmtpServer(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], user, password)  # type: ignore[arg-type]  # one of _PORTS


def signing_key(secret: str) -> bytes:
    """Return the key in a `whsec_...` secret; ValueError with how to create one."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ValueError(_CREATE_ONE) from exc
    if not secret.startswith(_PREFIX) or len(key) < _SHORTEST_KEY:
        raise ValueError(_CREATE_ONE)
    return key


def _parts(value: Any) -> list[str]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError("give texts, separated by commas")
    return [part.strip() for part in parts if part.strip()]


def _webhooks(value: Any) -> tuple[str, ...]:
    urls = tuple(dict.fromkeys(_parts(value)))
    for url in urls:
        try:
            checked_url(url)
        except CallRefused as exc:
            raise ValueError(f"an address in it is not accepted: {exc}") from exc
    return urls


def _addresses(value: Any) -> tuple[str, ...]:
    return tuple(_address(part) for part in dict.fromkeys(_parts(value)))


def _address(value: Any) -> str:
    if not isinstance(value, str) or parseaddr(value)[1] != value or not _ADDRESS.fullmatch(value):
        raise ValueError("give plain addresses like ops@example.org, separated by commas")
    return value


def _topics(value: Any) -> frozenset[Topic]:
    names = _parts(value.split(",") if isinstance(value, str) else list(value))
    known = {topic.value for topic in TOPICS}
    if not set(names) <= known:
        raise ValueError(f"known are {', '.join(sorted(known))}")
    return frozenset(Topic(name) for name in names)


def _secret(value: Any) -> Any:
    if isinstance(value, str):
        signing_key(value)
    return value


def _smtp(value: Any) -> Any:
    if isinstance(value, str):
        read_smtp_url(value)
    return value


def _names(value: Any) -> Any:
    return tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)]
Webhooks = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_webhooks)]
Secret = Annotated[str, BeforeValidator(_secret)]
Addresses = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_addresses)]
Address = Annotated[str, BeforeValidator(_address)]
Topics = Annotated[frozenset[Topic], NoDecode, BeforeValidator(_topics)]
SmtpUrl = Annotated[str, BeforeValidator(_smtp)]
