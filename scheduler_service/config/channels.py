"""Channels of notifications through Apprise: their addresses and what each one wants. No error shows an address."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import BeforeValidator
from pydantic_settings import NoDecode

from itinerary.net.safe_http import PRINTABLE
from scheduler_service.core.notifications.routing import Route
from scheduler_service.core.notifications.topics import TOPICS, Topic

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9]*://.", re.IGNORECASE)
_LISTS: Final = ("urls", "events", "jobs", "queues", "tags")
_EXAMPLE: Final = '[{"name": "oncall", "urls": ["slack://..."], "tags": ["billing"]}]'


@dataclass(frozen=True, slots=True)
class Channel:
    """The addresses of one channel, each of which gets every message that its route takes."""

    name: str
    urls: tuple[str, ...] = field(repr=False)
    route: Route


def read_channels(value: Any) -> tuple[Channel, ...]:
    """Read a list of channels, or its JSON text; ValueError names the channel and its field."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as exc:
            raise ValueError(f"give JSON such as {_EXAMPLE}") from exc
    if not isinstance(value, list | tuple):
        raise ValueError(f"give a list such as {_EXAMPLE}")
    channels = tuple(map(_channel, value))
    names = [channel.name for channel in channels]
    if len(set(names)) < len(names):
        raise ValueError("two channels have the same name; name each once")
    return channels


def _channel(value: Any) -> Channel:
    if isinstance(value, Channel):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"each channel is an object with name and urls, such as {_EXAMPLE}")
    name = value.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("each channel needs a name: letters, digits, dots, hyphens and underscores, 64 at most")
    unknown = sorted(set(map(str, value)) - {"name", *_LISTS})
    if unknown:
        raise ValueError(f"channel {name} has no field {unknown[0]!r}; known are name, {', '.join(_LISTS)}")
    lists = {key: _texts(value.get(key, ()), f"{key} of channel {name}") for key in _LISTS}
    if not lists["urls"]:
        raise ValueError(f"urls of channel {name}: give at least one address that Apprise understands")
    if not all(PRINTABLE.fullmatch(url) and _SCHEME.match(url) for url in lists["urls"]):
        raise ValueError(f"urls of channel {name}: each is printable ASCII and begins with a scheme such as slack://")
    events = _events(lists["events"], name)
    return Channel(name, lists["urls"], Route(events, lists["jobs"], lists["queues"], lists["tags"]))


def _events(names: tuple[str, ...], channel: str) -> frozenset[Topic]:
    known = {topic.value for topic in TOPICS}
    if not set(names) <= known:
        raise ValueError(f"events of channel {channel}: known are {', '.join(sorted(known))}")
    return frozenset(map(Topic, names)) or TOPICS


def _texts(value: Any, label: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) and text for text in value):
        raise ValueError(f"{label}: give a list of texts")
    return tuple(dict.fromkeys(value))


Channels = Annotated[tuple[Channel, ...], NoDecode, BeforeValidator(read_channels)]
