"""The ping of a job as JSON."""

import re
from typing import Any, Final
from urllib.parse import urlsplit

from itinerary.protocol.errors import BadValue
from itinerary.protocol.field_types import Choice, FieldType, read_list, read_object
from scheduler_service.core.memo import shared
from scheduler_service.core.pings import JobPing, PingState, PingStyle

_FIELDS: Final = ("url", "on", "style")
_LONGEST: Final = 2_000
_PRINTABLE: Final = re.compile(r"[!-~]+")
_STYLE: Final[Any] = Choice(PingStyle)
_STATE: Final[Any] = Choice(PingState)


class Pings(FieldType):
    """An object of `url`, `on` and `style`."""

    def read(self, value: Any, field: str) -> JobPing:
        """Return it; equal ones are one object."""
        return _read(value, field)

    def write(self, value: JobPing) -> dict[str, Any]:
        """Return all three."""
        return {"url": value.url, "on": [state.value for state in value.on], "style": value.style.value}


PINGS: Final = Pings()


@shared
def _read(value: Any, field: str) -> JobPing:
    body = read_object(value, field)
    for name in sorted(body.keys() - set(_FIELDS)):
        raise BadValue(f"{field}.{name}", body[name], f"this field is not known; known are {', '.join(_FIELDS)}")
    url = _url(body.get("url"), f"{field}.url")
    style = PingStyle.PLAIN if body.get("style") is None else _STYLE.read(body["style"], f"{field}.style")
    if body.get("on") is None:
        return JobPing(url, style=style)
    given = read_list(body["on"], f"{field}.on")
    on = tuple(dict.fromkeys(_STATE.read(state, f"{field}.on.{place}") for place, state in enumerate(given)))
    if not on:
        raise BadValue(f"{field}.on", given, f"name one of {', '.join(PingState)}, or leave `ping` out")
    return JobPing(url, on, style)


def _url(value: Any, field: str) -> str:
    wrong = f"give an address that begins with https:// or http://, printable ASCII, {_LONGEST} letters at most"
    if not isinstance(value, str) or len(value) > _LONGEST or not _PRINTABLE.fullmatch(value):
        raise BadValue(field, "...", wrong)
    try:
        parts = urlsplit(value)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as exc:
        raise BadValue(field, "...", wrong) from exc
    if not valid or parts.username is not None or parts.password is not None:
        raise BadValue(field, "...", f"{wrong}, without user and password")
    return value
