"""The API that the command line uses, and the parsing of its option values."""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from itinerary.protocol.errors import BadValue, ItineraryError
from itinerary.protocol.instants import format_instant, from_datetime, parse_duration

if TYPE_CHECKING:
    from itinerary.client.sync import Client


NAMED_BY: Final = "ITINERARY_API_URL"


class NotRunning(ItineraryError):
    """The `itinerary up` of the data folder is stopped; the user starts it or names another service."""


def open_client(*, timeout: float = 10, retries: int = 3) -> "Client":
    """Open a client of ITINERARY_API_URL, else of the `itinerary up` in the data folder, else of the settings.

    NotRunning if an `up` ran in that folder and is stopped: what the settings name may be another service.
    """
    from itinerary.client.sync import Client

    token = os.environ.get("ITINERARY_API_TOKEN") or None
    return Client(api_address(), token=token, timeout=timeout, retries=retries)


def started_here() -> Mapping[str, Any]:
    """Return what the last `itinerary up` wrote in the data folder; after a kill -9 it stays behind."""
    from scheduler_service.config.settings import load_settings
    from scheduler_service.runtime.run_file import read_run

    return read_run(load_settings().data_dir)


def remedy() -> str:
    """Return the advice for an API that does not answer."""
    if os.environ.get(NAMED_BY):
        return f"check {NAMED_BY}, and that the service runs there (`itinerary api`)"
    from scheduler_service.cli.beside_up import up_command
    from scheduler_service.config.settings import load_settings

    command = up_command(load_settings().data_dir)
    return f"is the service running? start it with `{command}`, or name another with {NAMED_BY}"


def api_address() -> str:
    """Return the address of the API: that of the environment, of the last `itinerary up`, or of the settings."""
    url = os.environ.get(NAMED_BY)
    if url:
        return url
    from scheduler_service.cli.beside_up import up_command
    from scheduler_service.config.settings import load_settings
    from scheduler_service.runtime.addresses import http_url
    from scheduler_service.runtime.run_file import LOCK_FILE

    settings = load_settings()
    # After a kill -9 the address stays; where nothing listens there, the error says so.
    started_by_up = started_here().get("api_url")
    if started_by_up is not None:
        return str(started_by_up)
    if not settings.model_fields_set & {"api_host", "api_port"} and (settings.data_dir / LOCK_FILE).exists():
        raise NotRunning(
            f"the service of {settings.data_dir} is not running; start it with `{up_command(settings.data_dir)}`,"
            f" or name another with {NAMED_BY}"
        )
    return http_url(settings.api_host, settings.api_port)


def json_value(text: str | None, option: str) -> Any:
    """Parse the JSON of an option; None if it was not given."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError as exc:
        raise BadValue(option, text, f"give JSON ({exc})") from exc


def headers_value(given: list[str] | None) -> dict[str, str] | None:
    """Read `NAME=VALUE` options; None if there are none."""
    pairs = [text.partition("=") for text in given or ()]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise BadValue("--header", name, "give NAME=VALUE")
    return {name: value for name, _, value in pairs} or None


def limits_value(given: list[str] | None, option: str = "--limit") -> list[Any] | None:
    """Read limits, each NAME, NAME=KEY or JSON; one empty text is an empty list, None if nothing was given."""
    if given == [""]:
        return []
    found: list[Any] = []
    for text in given or ():
        name, equals, key = text.partition("=")
        of_json = text.startswith("{")
        found.append(json_value(text, option) if of_json else {"name": name, "key": key} if equals else name)
    return found or None


def key_value(text: str | None, option: str) -> Any:
    """Read a key, or JSON that says where to take it from."""
    return json_value(text, option) if text is not None and text.startswith("{") else text


def instant_text(text: str | None, option: str) -> str | None:
    """Format a time as RFC 3339 in UTC; one without an offset is in the reader's zone."""
    if text is None:
        return None
    try:
        return format_instant(from_datetime(datetime.fromisoformat(text).astimezone(UTC)))
    except (ValueError, OverflowError) as exc:
        raise BadValue(option, text, "give a time such as 2026-11-27T10:00:00Z, or without Z in your zone") from exc


def coming_text(text: str | None, option: str) -> str | None:
    """Format a time as RFC 3339: the one given, or now plus the duration given."""
    try:
        return after(text, option)
    except BadValue as no_duration:
        try:
            return instant_text(text, option)
        except BadValue as exc:
            raise BadValue(option, text, f"{exc.allowed}, or how long from now, such as 5m") from no_duration


def after(text: str | None, option: str) -> str | None:
    """Return now plus a duration, as RFC 3339."""
    if text is None:
        return None
    return format_instant(from_datetime(datetime.now(UTC) + timedelta(microseconds=parse_duration(text, option))))
