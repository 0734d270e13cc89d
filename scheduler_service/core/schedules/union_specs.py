"""Specs of a union: `{"kind": "any", "of": [spec, ...]}`, each member a schedule of its own."""

from collections.abc import Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from scheduler_service.core.schedules.spec_reading import only_known

KEYS: Final = ("of",)
MOST: Final = 20


def members(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the members' specs; BadValue for a union within, or what can be no member."""
    only_known(spec, KEYS)
    given = spec.get("of")
    if not isinstance(given, (list, tuple)) or not 1 <= len(given) <= MOST:
        raise BadValue("of", given, f"a list of 1 to {MOST} schedules")
    for number, member in enumerate(given):
        kind = member.get("kind") if isinstance(member, Mapping) else None
        if kind == "any":
            raise BadValue(f"of.{number}.kind", kind, "a union has no union within; list its members here")
        if kind == "interval" and member.get("balanced"):
            raise BadValue(f"of.{number}.balanced", True, "only a schedule of its own is placed; leave it out")
    return list(given)


def member_id(job_id: str, number: int) -> str:
    """Return what stands for the job's id in the `H` of a member, so that equal members are spread."""
    return f"{job_id}#{number}" if job_id else ""
