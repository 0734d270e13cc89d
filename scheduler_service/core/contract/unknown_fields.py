"""Fields of stored jobs that only a newer release knows.

They have no effect here, are kept as stored, and are written back by every edit. So a return to an older release loses
neither jobs nor the newer release's fields. An unknown schedule kind is no such field.
"""

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any, Final

from scheduler_service.core.contract.job_table import GROUPS
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import SPEC_FIELDS

_INNER: Final = (*GROUPS, "schedule")


def split(definition: Mapping[str, Any], fields: Container[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a definition into its known part and its unknown part; `fields` are the known ones of a job."""
    known = {name: value for name, value in definition.items() if name in fields}
    unknown = {name: value for name, value in definition.items() if name not in fields}
    for name in _INNER:
        inner = known.get(name)
        inside = _known_inside(name, inner)
        if isinstance(inner, Mapping) and (rest := {key: inner[key] for key in inner if key not in inside}):
            known[name] = {key: value for key, value in inner.items() if key in inside}
            unknown[name] = rest
    return known, unknown


def joined(definition: dict[str, Any], unknown: Mapping[str, Any]) -> dict[str, Any]:
    """Join both parts into the whole definition."""
    whole = {**definition, **{name: value for name, value in unknown.items() if name not in _INNER}}
    for name in _INNER:
        if name in unknown:
            whole[name] = {**definition[name], **unknown[name]}
    return whole


def names(unknown: Mapping[str, Any]) -> list[str]:
    """Return the paths of the fields, such as `owner` and `retry.budget`."""
    return sorted(
        f"{name}.{key}" if name in _INNER else name
        for name, value in unknown.items()
        for key in (value if name in _INNER else ("",))
    )


def carried(there: Job, wanted: Job) -> Job:
    """Return the wanted job with the stored one's unknown fields; those of a schedule of another kind are dropped."""
    if not there.unknown:
        return wanted
    same_kind = there.schedule_spec["kind"] == wanted.schedule_spec["kind"]
    kept = {name: value for name, value in there.unknown.items() if name != "schedule" or same_kind}
    return replace(wanted, unknown=kept or None)


def note(job: Job) -> tuple[str, ...]:
    """Return a warning for readers and writers of the job."""
    if not job.unknown:
        return ()
    return (f"a newer release gave it {', '.join(names(job.unknown))}: kept, and without effect here",)


def _known_inside(name: str, inner: Any) -> Container[str]:
    if name in GROUPS:
        return {field.name for field in GROUPS[name]}
    kind = inner.get("kind") if isinstance(inner, Mapping) else None
    # Leave an unknown kind whole: it must be refused, not half read.
    found = next((fields for known, fields in SPEC_FIELDS.items() if known == kind), None)
    return {"kind", *found} if found is not None else set(inner or ())
