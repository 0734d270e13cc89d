"""The API that the command line uses, and the parsing of its option values."""

import json
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import format_instant, from_datetime, parse_duration

if TYPE_CHECKING:
    from itinerary.client.sync import Client


NAMED_BY: Final = "ITINERARY_API_URL"


def open_client(*, timeout: float = 10, retries: int = 3) -> "Client":
    """Open a client of ITINERARY_API_URL, else of the `itinerary up` in the data folder, else of the settings."""
    from itinerary.client.sync import Client

    token = os.environ.get("ITINERARY_API_TOKEN") or None
    return Client(_address(), token=token, timeout=timeout, retries=retries)


def started_here() -> dict[str, Any]:
    """Return what the last `itinerary up` wrote in the data folder; after a kill -9 it stays behind."""
    from scheduler_service.config.settings import load_settings
    from scheduler_service.runtime.run_file import read_run

    return read_run(load_settings().data_dir)


def remedy() -> str:
    """Return the advice for an API that does not answer."""
    if os.environ.get(NAMED_BY):
        return f"check {NAMED_BY}, and that the service runs there (`itinerary api`)"
    return f"is the service running? start it with `itinerary up`, or name another with {NAMED_BY}"


def _address() -> str:
    url = os.environ.get(NAMED_BY)
    if url:
        return url
    from scheduler_service.config.settings import load_settings
    from scheduler_service.runtime.addresses import http_url

    # Where nothing listens at a left-over address, the error says so.
    started_by_up = started_here().get("api_url")
    settings = load_settings()
    return str(started_by_up or http_url(settings.api_host, settings.api_port))


def json_value(text: str | None, option: str) -> Any:
    """Parse the JSON of an option; None if it was not given."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError as exc:
        raise BadValue(option, text, f"give JSON ({exc})") from exc


def instant_text(text: str | None, option: str) -> str | None:
    """Format a time as RFC 3339 in UTC; one without an offset is in the reader's zone."""
    if text is None:
        return None
    try:
        return format_instant(from_datetime(datetime.fromisoformat(text).astimezone(UTC)))
    except (ValueError, OverflowError) as exc:
        raise BadValue(option, text, "give a time such as 2026-11-27T10:00:00Z, or without Z in your zone") from exc


def after(text: str | None, option: str) -> str | None:
    """Return now plus a duration, as RFC 3339."""
    if text is None:
        return None
    return format_instant(from_datetime(datetime.now(UTC) + timedelta(microseconds=parse_duration(text, option))))
