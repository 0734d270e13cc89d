"""Bulk operations as the API's JSON, and back.

Promises that an unknown filter is refused by name, and that an empty one needs `"all": true`: a misspelt filter would
act on everything.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.field_types import Flag, read_object
from itinerary.protocol.identity import JOB_ID, QUEUE, RUN_ID
from itinerary.protocol.instants import Instant, format_instant, parse_instant
from itinerary.protocol.limits import LIMIT
from itinerary.protocol.run_request import KEY_FIELD, read_field, read_key, refuse_unknown
from scheduler_service.core.bulk import ACTIONS, MOST_NAMED, BulkAction, BulkOn, BulkOperation, BulkOrder
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.contract.job_json import optional_instant
from scheduler_service.core.run_state import RunState

_STATES: Final = tuple(state.value for state in RunState)


def read_bulk(on: BulkOn, body: Mapping[str, Any], now: Instant) -> BulkOrder:
    """The operation that the body asks for; BadValues with every error."""
    errors: list[BadValue] = []
    allowed = {"filter", "all", "action", "dry_run", KEY_FIELD, *_OPTIONS_OF[on]}
    refuse_unknown(body, allowed, errors)
    action = _action(on, body.get("action"), errors)
    given = read_field(body, "filter", read_object, {}, errors)
    read_field(body, "dry_run", Flag().read, False, errors)
    read_field(body, KEY_FIELD, read_key, None, errors)
    everything = read_field(body, "all", Flag().read, False, errors)
    wanted = _filter(on, given, errors)
    if not wanted and not everything and not errors:
        errors.append(BadValue("filter", given, 'an empty filter finds everything; give a filter, or "all": true'))
    if wanted and everything:
        errors.append(BadValue("all", True, "leave it out where a filter is given"))
    if on is BulkOn.RUNS and action in _NEED_STATES and not {"state", "run_ids"} & wanted.keys() and not errors:
        errors.append(BadValue("filter.state", None, f"name the states to {_NEED_STATES[action]}, such as failed"))
    options = _options(action, body, now, errors)
    if errors:
        raise BadValues(errors)
    assert action is not None
    return BulkOrder(on, action, wanted, options)


def operation_body(operation: BulkOperation) -> dict[str, Any]:
    """The operation as the API shows it."""
    order, progress = operation.order, operation.progress
    return {
        "operation_id": operation.operation_id,
        "on": order.on.value,
        "action": order.action.value,
        "filter": dict(order.filter),
        **{name: order.options.get(name) for name in _OPTIONS},
        "undo_of": order.undo_of,
        "state": progress.state.value,
        "total": operation.total,
        "total_is_exact": not operation.total_more,
        "seen": progress.seen,
        "counts": dict(progress.counts),
        "error": progress.error,
        "actor": operation.actor,
        "created_at": format_instant(operation.created_at),
        "updated_at": format_instant(operation.updated_at),
        "finished_at": optional_instant(operation.finished_at),
        "undone_by": operation.undone_by,
        "can_be_undone": operation.can_be_undone,
    }


def _action(on: BulkOn, value: Any, errors: list[BadValue]) -> BulkAction | None:
    known = [action.value for action in ACTIONS[on]]
    if value not in known:
        errors.append(BadValue("action", value, f"choose one of {', '.join(known)}"))
        return None
    return BulkAction(value)


def _filter(on: BulkOn, given: Mapping[str, Any], errors: list[BadValue]) -> dict[str, Any]:
    readers = _FILTERS[on]
    for name in sorted(given.keys() - readers.keys()):
        known = ", ".join(sorted(readers))
        errors.append(BadValue(f"filter.{name}", given[name], f"this filter is not known; known are {known}"))
    found: dict[str, Any] = {}
    for name in sorted(name for name in readers if given.get(name) is not None):
        try:
            found[name] = readers[name](given[name], f"filter.{name}")
        except BadValue as exc:
            errors.append(exc)
    if "since" in found and "until" in found and found["until"] <= found["since"]:
        errors.append(BadValue("filter.until", given["until"], "give a time after since"))
    return found


def _options(
    action: BulkAction | None, body: Mapping[str, Any], now: Instant, errors: list[BadValue]
) -> dict[str, Any]:
    queue = read_field(body, "queue", _queue, None, errors)
    reason = read_field(body, "reason", read_text, None, errors)
    until = read_field(body, "until", parse_instant, None, errors)
    if until is not None and until <= now:
        errors.append(BadValue("until", body["until"], "give a time in the future; omit it to pause indefinitely"))
    if action is BulkAction.MOVE and body.get("queue") is None:
        errors.append(BadValue("queue", None, "name the queue to move to"))
    for name, of in (("queue", BulkAction.MOVE), ("reason", BulkAction.PAUSE), ("until", BulkAction.PAUSE)):
        if action is not None and action is not of and body.get(name) is not None:
            errors.append(BadValue(name, body[name], f"this belongs to {of.value}; leave it out"))
    options = {"queue": queue, "reason": reason, "until": optional_instant(until)}
    return {name: value for name, value in options.items() if value is not None}


def _queue(value: Any, field: str) -> str:
    return _named(QUEUE.fullmatch, "no queue can have such a name")(value, field)


def _text(value: Any, field: str) -> str:
    if read_text(value, field) == "":
        raise BadValue(field, value, "give a text, or leave it out")
    return str(value)


def _named(fits: Callable[[str], Any], rule: str) -> Callable[[Any, str], str]:
    def read(value: Any, field: str) -> str:
        if not isinstance(value, str) or not fits(value):
            raise BadValue(field, value, rule)
        return value

    return read


def _several(read: Callable[[Any, str], str]) -> Callable[[Any, str], list[str]]:
    def read_all(value: Any, field: str) -> list[str]:
        if not isinstance(value, list) or not 0 < len(value) <= MOST_NAMED:
            raise BadValue(field, value, f"give a list of 1 to {MOST_NAMED}")
        return sorted({read(one, f"{field}.{place}") for place, one in enumerate(value)})

    return read_all


def _states(value: Any, field: str) -> list[str]:
    one = _named(lambda name: name in _STATES, f"known are {', '.join(_STATES)}")
    return _several(one)([value] if isinstance(value, str) else value, field)


def _time(value: Any, field: str) -> str:
    return format_instant(parse_instant(value, field))


_JOB: Final = _named(JOB_ID.fullmatch, "no job can have such an id")
_RUN: Final = _named(RUN_ID.fullmatch, "no run can have such an id")
_NEED_STATES: Final = {BulkAction.RETRY: "run again", BulkAction.DELETE: "delete"}
_OPTIONS: Final = ("queue", "reason", "until")
_OPTIONS_OF: Final = {BulkOn.RUNS: ("queue",), BulkOn.JOBS: _OPTIONS}
_FILTERS: Final[Mapping[BulkOn, Mapping[str, Callable[[Any, str], Any]]]] = {
    BulkOn.RUNS: {
        "job_id": _JOB,
        "state": _states,
        "queue": _queue,
        "since": _time,
        "until": _time,
        "run_ids": _several(_RUN),
        "task": _text,
        "limit_name": _named(LIMIT.fullmatch, "no limit can have such a name"),
        "limit_key": _text,
    },
    BulkOn.JOBS: {
        "tag": _text,
        "q": _text,
        "paused": Flag().read,
        "source": _text,
        "queue": _queue,
        "task": _text,
        "last_state": _states,
        "job_ids": _several(_JOB),
    },
}
