"""Definitions of limits, and of queues, as the API's JSON, and back.

Promises that reading reports every wrong value at once (BadValues), and that what was written is read as the same.
"""

from collections.abc import Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.field_types import Flag, Group, Span, Whole, read_object
from itinerary.protocol.instants import SECOND
from itinerary.protocol.json_text import is_storable
from itinerary.protocol.limits import LIMIT, LIMIT_RULE, MOST_KEY
from itinerary.protocol.run_request import read_field, refuse_unknown
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.controls import QueueDefinition
from scheduler_service.core.limits import LONGEST_RATE, Bounds, Limit, Rate

MOST_OVERRIDES: Final = 1_000
CONCURRENCY: Final = Whole(1, 1_000_000)
RATE: Final = Group(Rate, {"count": Whole(1, 100_000), "per": Span(SECOND, LONGEST_RATE)})
_BOUNDS: Final = frozenset({"concurrency", "rate"})
LIMIT_FIELDS: Final = _BOUNDS | {"per_key", "overrides", "description"}
QUEUE_FIELDS: Final = _BOUNDS | {"fair", "description"}
_NONE_GIVEN: Final = "give concurrency, rate or both"
_FLAG: Final = Flag()


def read_limit(name: str, body: Mapping[str, Any]) -> Limit:
    """The limit of this name."""
    errors: list[BadValue] = []
    if not LIMIT.fullmatch(name):
        errors.append(BadValue("name", name, LIMIT_RULE))
    refuse_unknown(body, LIMIT_FIELDS, errors)
    bounds = _bounds(body, "", errors)
    if bounds == Bounds() and not errors:
        errors.append(BadValue("concurrency", None, f"{_NONE_GIVEN}; delete the limit to lift it"))
    per_key = _given(body, "per_key", _FLAG.read, False, errors)
    overrides = _overrides(body, errors)
    if overrides and not per_key:
        errors.append(BadValue("overrides", None, "only a limit with per_key has keys; set per_key or leave them out"))
    description = _given(body, "description", read_text, "", errors)
    if errors:
        raise BadValues(errors)
    return Limit(name, bounds, per_key, overrides, description)


def changed_limit(limit: Limit, change: Mapping[str, Any]) -> Limit:
    """The limit with the given fields changed; of `overrides` the given keys, of which null removes one."""
    body = {**limit_body(limit), **change}
    overrides = change.get("overrides")
    if isinstance(overrides, dict):
        kept = {**limit_body(limit)["overrides"], **overrides}
        body["overrides"] = {key: override for key, override in kept.items() if override is not None}
    return read_limit(limit.name, body)


def limit_body(limit: Limit) -> dict[str, Any]:
    """The JSON from which `read_limit` reads the limit."""
    overrides = {key: _given_bounds(bounds) for key, bounds in limit.overrides.items()}
    return {
        **bounds_body(limit.bounds), "per_key": limit.per_key, "overrides": overrides,
        "description": limit.description,
    }  # fmt: skip


def read_queue(body: Mapping[str, Any]) -> QueueDefinition:
    """The definition of a queue."""
    errors: list[BadValue] = []
    refuse_unknown(body, QUEUE_FIELDS, errors)
    bounds = _bounds(body, "", errors)
    fair = _given(body, "fair", _FLAG.read, False, errors)
    description = _given(body, "description", read_text, "", errors)
    if errors:
        raise BadValues(errors)
    return QueueDefinition(description, bounds, fair)


def changed_queue(queue: QueueDefinition, change: Mapping[str, Any]) -> QueueDefinition:
    """The definition with the given fields changed."""
    return read_queue({**queue_body(queue), **change})


def queue_body(queue: QueueDefinition) -> dict[str, Any]:
    """The JSON from which `read_queue` reads the definition."""
    return {**bounds_body(queue.bounds), "fair": queue.fair, "description": queue.description}


def bounds_body(bounds: Bounds) -> dict[str, Any]:
    """Both bounds as JSON; null: any number."""
    return {"concurrency": bounds.concurrency, "rate": None if bounds.rate is None else RATE.write(bounds.rate)}


def _given_bounds(bounds: Bounds) -> dict[str, Any]:
    return {name: value for name, value in bounds_body(bounds).items() if value is not None}


def _bounds(body: Mapping[str, Any], within: str, errors: list[BadValue]) -> Bounds:
    found: list[BadValue] = []
    concurrency = read_field(body, "concurrency", CONCURRENCY.read, None, found)
    rate = read_field(body, "rate", _rate, None, found)
    errors += [error.under(within) if within else error for error in found]
    return Bounds(concurrency, rate)


def _rate(value: Any, field: str) -> Rate:
    body = read_object(value, field)
    for name in RATE.types:
        if body.get(name) is None:
            raise BadValue(f"{field}.{name}", None, "this field is required")
    return RATE.read(body, field)


def _overrides(body: Mapping[str, Any], errors: list[BadValue]) -> Mapping[str, Bounds]:
    given = read_field(body, "overrides", read_object, {}, errors)
    if len(given) > MOST_OVERRIDES:
        errors.append(BadValue("overrides", len(given), f"give at most {MOST_OVERRIDES:,} keys"))
        return {}
    return {key: _override(key, value, errors) for key, value in given.items()}


def _override(key: str, value: Any, errors: list[BadValue]) -> Bounds:
    field = f"overrides.{key}"
    before = len(errors)
    if not 0 < len(key) <= MOST_KEY or not is_storable(key):
        errors.append(BadValue("overrides", key, f"a key is a text of 1 to {MOST_KEY} characters without NUL"))
    try:
        body = read_object(value, field)
    except BadValue as error:
        errors.append(error)
        return Bounds()
    unknown: list[BadValue] = []
    refuse_unknown(body, _BOUNDS, unknown)
    errors += [error.under(field) for error in unknown]
    bounds = _bounds(body, field, errors)
    if bounds == Bounds() and len(errors) == before:
        errors.append(BadValue(field, None, _NONE_GIVEN))
    return bounds


def _given(body: Mapping[str, Any], name: str, read: Any, default: Any, errors: list[BadValue]) -> Any:
    """The field's value, or the default where it is left out; null is none of its values."""
    if name not in body:
        return default
    try:
        return read(body[name], name)
    except BadValue as error:
        errors.append(error)
        return default
