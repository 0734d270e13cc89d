"""The project's `ITINERARY` setting: a dictionary with these names, each of which may be absent."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from math import inf
from typing import Any, Final

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured

NAME: Final = "ITINERARY"


@dataclass(frozen=True, slots=True)
class Setting:
    """One name in the dictionary: `default` gives its value where it is absent."""

    meaning: str
    default: Callable[[], str | float | None]


SETTINGS: Final = {
    "URL": Setting(
        "the address of Itinerary's API, such as http://127.0.0.1:8080",
        lambda: os.environ.get("ITINERARY_API_URL", "http://127.0.0.1:8080"),
    ),
    "TOKEN": Setting("the token that the API asks for", lambda: os.environ.get("ITINERARY_API_TOKEN")),
    "APP": Setting("the Celery app, such as shop.celery:app", lambda: None),
    "COMMAND": Setting("the service's own command, for import-beat and shadow", lambda: "itinerary"),
    "DASHBOARD_URL": Setting("the address of the dashboard for people; URL by default", lambda: None),
    "ON_COMMIT_TIMEOUT": Setting("seconds above 0 that enqueue_on_commit may take after the commit", lambda: 5.0),
}


def setting(name: str) -> str | None:
    """The value of one setting that is a text."""
    value = _value(name)
    return None if value is None else str(value)


def seconds(name: str) -> float:
    """The value of one setting that is a time."""
    value = _value(name)
    if not _is_time(value):
        raise ImproperlyConfigured(f'{NAME}["{name}"] is {value!r}; give {SETTINGS[name].meaning}')
    return float(value)


def _value(name: str) -> Any:
    given: Any = getattr(settings, NAME, None) or {}
    if not isinstance(given, dict):  # a web server runs no checks
        raise ImproperlyConfigured(f"{NAME} must be a dictionary, not {type(given).__name__}")
    value = given.get(name)
    return SETTINGS[name].default() if value is None else value


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < inf


def problems(**_: object) -> list[CheckMessage]:
    """Every error in the dictionary, for Django's system checks."""
    given = getattr(settings, NAME, None)
    if given is None:
        return []
    if not isinstance(given, dict):
        return [Error(f"{NAME} must be a dictionary, not {type(given).__name__}", id="itinerary.E001")]
    found: list[CheckMessage] = []
    for name, value in given.items():
        if name not in SETTINGS:
            near = get_close_matches(str(name).upper(), SETTINGS, n=1)
            hint = f'Did you mean "{near[0]}"?' if near else f"The names are {', '.join(SETTINGS)}."
            found.append(Error(f"{NAME} has an unknown name {name!r}", hint=hint, id="itinerary.E002"))
        elif name.endswith("URL") and value and not re.match(r"https?://[^/]", str(value)):
            wanted = f"Give {SETTINGS[name].meaning}."
            found.append(
                Error(f'{NAME}["{name}"] must begin with http:// or https://', hint=wanted, id="itinerary.E004")
            )
        elif name.endswith("TIMEOUT"):
            if value is not None and not _is_time(value):
                wanted = f"Give {SETTINGS[name].meaning}."
                found.append(Error(f'{NAME}["{name}"] must be a number of seconds', hint=wanted, id="itinerary.E005"))
        elif value is not None and not isinstance(value, str):
            wanted = f"Give {SETTINGS[name].meaning}."
            found.append(Error(f'{NAME}["{name}"] must be a text', hint=wanted, id="itinerary.E003"))
    return found
