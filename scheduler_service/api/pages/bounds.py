"""The fields of bounds in forms of limits and queues, and the mark by which an edit of an older form is refused."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue, BadValues, Conflict
from scheduler_service.api.pages.csrf import Form
from scheduler_service.core.contract.limit_texts import concurrency_text, rate_text, read_concurrency, read_rate

LABELS: Final = {"concurrency": "At a time", "rate": "Starts in a time", "description": "Purpose"}


def bounds_typed(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the fields for a definition."""
    texts = {"concurrency": concurrency_text(body), "rate": rate_text(body), "description": body["description"]}
    return {**texts, "mark": mark_of(body)}


def bounds_of(form: Form, errors: list[BadValue]) -> dict[str, Any]:
    """Read the fields as the API's JSON; an empty one is no bound."""
    body: dict[str, Any] = {"description": form.one("description")}
    for name, read in (("concurrency", read_concurrency), ("rate", read_rate)):
        try:
            body[name] = read(form.one(name), name) if form.one(name) else None
        except BadValue as error:
            errors.append(error)
    return body


def mark_of(body: Mapping[str, Any]) -> str:
    """Return a text that changes with the definition."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]


def check_mark(form: Form, body: Mapping[str, Any]) -> None:
    """Raise Conflict if the definition is not the one that the form was filled with."""
    if form.one("mark") != mark_of(body):
        raise Conflict("somebody changed it since this form was opened; open it again", "edited-by-others")


def refuse(errors: list[BadValue]) -> None:
    """Raise what was refused so far, if anything was."""
    if errors:
        raise BadValues(errors)
