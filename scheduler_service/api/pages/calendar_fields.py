"""The fields of a job's form for its calendars, from JSON and back. Pure."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from scheduler_service.api.pages.csrf import Form
from scheduler_service.core.calendars.model import WhenExcluded

LABELS: Final = {
    "calendars.exclude": "Not in", "calendars.only": "Only in", "calendars.when_excluded": "Days left out",
    "calendars.workdays": "Business days but for",
}  # fmt: skip
WHEN_EXCLUDED: Final = get_args(WhenExcluded)


def texts_of(calendars: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the texts of the fields."""
    found = calendars or {}
    lists = {f"calendars.{name}": ", ".join(found.get(name, ())) for name in ("exclude", "only")}
    moved, workdays = found.get("when_excluded", WHEN_EXCLUDED[0]), found.get("workdays") or ""
    return {**lists, "calendars.when_excluded": moved, "calendars.workdays": workdays}


def calendars_of(form: Form) -> dict[str, Any] | None:
    """Return what the fields say as a job's JSON; None if they name no calendar."""
    body: dict[str, Any] = {}
    for name in ("exclude", "only"):
        if ids := [one.strip() for one in form.one(f"calendars.{name}").split(",") if one.strip()]:
            body[name] = ids
    if workdays := form.one("calendars.workdays"):
        body["workdays"] = workdays
    if form.one("calendars.when_excluded") not in ("", WHEN_EXCLUDED[0]):
        body["when_excluded"] = form.one("calendars.when_excluded")
    return body or None
