"""Field changes and owners, which plans of jobs and of monitors share. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.errors import Conflict
from itinerary.protocol.redaction import hidden, is_hidden, redacted

_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field, named by its path (`schedule.expr`), and its values; None also where it is absent."""

    field: str
    before: Any
    after: Any


def changes(before: Any, after: Any, path: str = "") -> list[FieldChange]:
    """Compare two JSON values field by field; lists are compared whole."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        found = []
        for key in dict.fromkeys([*before, *after]):
            deeper = f"{path}.{key}" if path else str(key)
            if (key in before) != (key in after):
                found.append(FieldChange(deeper, before.get(key), after.get(key)))
            else:
                found += changes(before[key], after[key], deeper)
        return found
    return [] if _equal(before, after) else [FieldChange(path, before, after)]


def change_bodies(fields: tuple[FieldChange, ...]) -> list[dict[str, Any]]:
    """Return the changed fields as JSON, hidden values masked."""
    return [{"field": f.field, "before": _shown(f.field, f.before), "after": _shown(f.field, f.after)} for f in fields]


def refuse_others(what: str, owners: Mapping[str, str | None], source: str) -> None:
    """Raise Conflict if one of `what`, by id with its owner, belongs to another source."""
    foreign = [f"{name} ({owner})" for name, owner in owners.items() if owner not in (None, source)]
    if foreign:
        named = ", ".join(foreign[:_MOST_NAMED]) + (", ..." if len(foreign) > _MOST_NAMED else "")
        raise Conflict(
            f"these {what} belong to another source: {named}; take them over, or give them other ids", "other-source"
        )


def _shown(field: str, value: Any) -> Any:
    return hidden(value) if any(map(is_hidden, field.split("."))) else redacted(value)


def _equal(before: Any, after: Any) -> bool:
    """Compare as JSON: 1, 1.0 and true are three values."""
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_equal, before, after))
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return before.keys() == after.keys() and all(_equal(before[key], after[key]) for key in before)
    return type(before) is type(after) and bool(before == after)
