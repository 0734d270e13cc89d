"""Freezes as the API's JSON, and back.

Promises that reading reports every wrong value at once (BadValues), and that a freeze does not reach back.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.field_types import Choice, read_object
from itinerary.protocol.identity import QUEUE, check_job_id
from itinerary.protocol.instants import Instant, format_instant, parse_instant
from itinerary.protocol.run_request import read_field, refuse_unknown
from scheduler_service.core.contract.fields import Tags, read_text
from scheduler_service.core.contract.job_json import optional_instant
from scheduler_service.core.freezes import During, Freeze, FreezeCounts, NewFreeze, Scope, status_of

FREEZE_ID: Final = re.compile("[1-9][0-9]{0,17}", re.ASCII)
MOST_NAMES: Final = 100
_DURING: Final = Choice(During)
_TAG: Final = Tags()
_KNOWN: Final = {"scope", "from", "until", "reason", "during"}
_ONE_OF: Final = 'give one of {"all": true}, {"queues": [..]}, {"tags": [..]}, {"jobs": [..]}'


def read_freeze(body: Mapping[str, Any], now: Instant) -> NewFreeze:
    """The freeze that the body asks for."""
    errors: list[BadValue] = []
    refuse_unknown(body, _KNOWN, errors)
    if body.get("scope") is None:
        errors.append(BadValue("scope", None, _ONE_OF))
    scope = read_field(body, "scope", _read_scope, Scope(), errors)
    reason = read_field(body, "reason", read_text, "", errors)
    if not reason and not errors:
        errors.append(BadValue("reason", reason, "give the reason; it is shown where a run waits"))
    during = read_field(body, "during", _DURING.read, During.HOLD, errors)
    since = read_field(body, "from", parse_instant, None, errors)
    if since is not None and since < now:
        errors.append(BadValue("from", body["from"], "a freeze does not reach back; omit it to begin at once"))
    until = read_field(body, "until", parse_instant, None, errors)
    if until is not None and until <= max(now, since or now):
        rule = "give a time in the future, after the beginning; omit it until somebody ends the freeze"
        errors.append(BadValue("until", body["until"], rule))
    if errors:
        raise BadValues(errors)
    return NewFreeze(scope, reason, during, since, until)


def freeze_body(freeze: Freeze, counts: FreezeCounts | None, now: Instant) -> dict[str, Any]:
    """The freeze as the API shows it; the counts are those of one that holds."""
    return {
        "freeze_id": freeze.freeze_id,
        "status": status_of(freeze, now).value,
        "scope": scope_body(freeze.scope),
        "during": freeze.during.value,
        "from": format_instant(freeze.since),
        "until": optional_instant(freeze.until),
        "reason": freeze.reason,
        "created_at": format_instant(freeze.created_at),
        "created_by": freeze.by,
        "ended_at": optional_instant(freeze.ended_at),
        "ended_by": freeze.ended_by,
        "running": None if counts is None else counts.running,
        "pending": None if counts is None else counts.pending,
        "in_flight_is_exact": None if counts is None else not counts.more,
    }


def scope_body(scope: Scope) -> dict[str, Any]:
    """The scope as users write it."""
    if scope.everything:
        return {"all": True}
    parts = {"queues": scope.queues, "tags": scope.tags, "jobs": scope.jobs}
    return {name: sorted(names) for name, names in parts.items() if names}


def _read_scope(value: Any, field: str) -> Scope:
    body = read_object(value, field)
    if len(body) != 1 or not body.keys() <= {"all", *_NAMES}:
        raise BadValue(field, value, _ONE_OF)
    ((name, given),) = body.items()
    if name == "all":
        if given is not True:
            raise BadValue(f"{field}.all", given, "give true, or name queues, tags or jobs")
        return Scope(everything=True)
    where = f"{field}.{name}"
    if not isinstance(given, list) or not 0 < len(given) <= MOST_NAMES:
        raise BadValue(where, given, f"give a list of 1 to {MOST_NAMES} names")
    names = frozenset(_NAMES[name](each, f"{where}.{place}") for place, each in enumerate(given))
    return Scope(False, *(names if name == kind else frozenset() for kind in _NAMES))


def _read_queue(value: Any, field: str) -> str:
    if not isinstance(value, str) or not QUEUE.fullmatch(value):
        raise BadValue(field, value, "no queue can have such a name")
    return value


def _read_tag(value: Any, field: str) -> str:
    return _TAG.read([value], field)[0]


_NAMES: Final[Mapping[str, Callable[[Any, str], str]]] = {
    "queues": _read_queue,
    "tags": _read_tag,
    "jobs": check_job_id,
}
