"""The zone that this machine's clock is set to, by its IANA name."""

import os
from pathlib import Path
from typing import Final

from itinerary.protocol.errors import BadValue
from scheduler_service.core.schedules.zones import zone

_LINK: Final = Path("/etc/localtime")
_FILE: Final = Path("/etc/timezone")


def local_zone(given: str | None = None) -> str:
    """`given`, else what TZ, /etc/timezone or /etc/localtime say; BadValue where none of them names a zone."""
    if given is not None:
        return zone(given).key
    for name in (os.environ.get("TZ", "").lstrip(":"), _written(), _linked()):
        try:
            return zone(name).key
        except BadValue:
            continue
    raise BadValue("--timezone", None, "this machine does not name its zone: give it, such as Europe/Berlin")


def _written() -> str:
    try:
        return _FILE.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _linked() -> str:
    return os.path.realpath(_LINK).partition("zoneinfo/")[2]
