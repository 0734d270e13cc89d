"""JSON merge patch (RFC 7396) of a job's definition. Pure."""

from collections.abc import Container
from typing import Any, Final

from scheduler_service.core.schedules.schedule import SPEC_FIELDS

_WITH_FIELDS: Final = ("schedule", "misfire", "retry")  # kwargs may hold anything


def merged(definition: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch (RFC 7396); null resets a field to its default, and must name a known field."""
    schedule, wanted = definition["schedule"], patch.get("schedule")
    kind = wanted.get("kind", schedule["kind"]) if isinstance(wanted, dict) else schedule["kind"]
    kept = definition if kind == schedule["kind"] else {**definition, "schedule": {}}
    merged = _unknown(patch, definition) | _merge(kept, patch)
    of_kind = next((fields for known, fields in SPEC_FIELDS.items() if known == kind), ())
    for name, known in {**definition, "schedule": {*schedule, *of_kind}}.items():
        if name in _WITH_FIELDS and isinstance(patch.get(name), dict):
            merged[name] = _unknown(patch[name], known) | merged[name]
    return merged


def _unknown(patch: dict[str, Any], known: Container[str]) -> dict[str, None]:
    """Return what the reader must refuse: a null would remove it unnoticed."""
    return {key: None for key in patch if key not in known}


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in target.items() if key not in patch}
    for key, value in patch.items():
        if isinstance(value, dict):
            below = target.get(key)
            result[key] = _merge(below if isinstance(below, dict) else {}, value)
        elif value is not None:
            result[key] = value
    return result
