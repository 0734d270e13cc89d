"""Bulk operations on pages: what would happen to the rows of a list, the beginning, the progress, the result, the undo.

Promises that nothing begins but by the form of a preview, and once however often that is sent.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from uuid_utils.compat import uuid7

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import format_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.http.bodies import read_json
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.pages.csrf import FormBody
from scheduler_service.api.pages.moments import Moment, moment, optional_moment
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.pages.typed_times import read_typed_time
from scheduler_service.api.pages.wrong import NOTHING_WRONG, wrong_of
from scheduler_service.api.routes.bulk import known_operation
from scheduler_service.api.routes.jobs import Cursor
from scheduler_service.api.services.bulk import BulkPlan, begin, plan, read_order, undo
from scheduler_service.core.bulk import ACTIONS, BulkAction, BulkOn, BulkOperation, BulkState

_SHOWN: Final = 50
_LABELS: Final = {"queue": "Queue", "reason": "Reason", "id": "Rows"}
_IDS: Final = {BulkOn.RUNS: "run_ids", BulkOn.JOBS: "job_ids"}
FILTERS: Final = {
    BulkOn.RUNS: ("job_id", "state", "queue", "since", "until", "task", "limit_name", "limit_key"),
    BulkOn.JOBS: ("q", "tag", "queue", "task", "paused", "source", "last_state"),
}
VERBS: Final = {
    BulkAction.CANCEL: "Cancel", BulkAction.RETRY: "Run again", BulkAction.PAUSE: "Pause",
    BulkAction.RESUME: "Resume", BulkAction.MOVE: "Move to a queue", BulkAction.DELETE: "Delete",
}  # fmt: skip
OUTCOMES: Final = {
    "cancelled": "cancelled", "cancel_requested": "asked to stop", "retried": "run again",
    "retried_before": "run again before, left alone", "limit_missing": "left alone: a limit is gone",
    "paused": "paused", "resumed": "resumed", "moved": "moved", "deleted": "deleted", "restored": "as before",
    "changed_since": "left alone: changed since", "sent_before": "left alone: sent to its queue before",
    "planned_kept": "left alone: a schedule planned it", "refused": "left alone: what it names is gone",
    "unchanged": "left as it is",
}  # fmt: skip

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)
Text = Annotated[str, Query(max_length=1000)]


@dataclass(frozen=True, slots=True)
class OperationLine:
    """One operation as pages show it."""

    operation_id: str
    title: str
    on: str
    state: BulkState
    seen: int
    total: int
    more: bool
    counts: tuple[tuple[str, int], ...]
    error: str | None
    actor: str
    began: Moment
    ended: Moment | None
    back: str
    asked: str
    undo_of: str | None
    undone_by: str | None
    can_be_undone: bool


@router.get("/bulk")
def list_operations(request: Request, context: Context, cursor: Cursor = None) -> Response:
    """List the operations, the newest first."""
    found = context.stores.bulk.list(None, _SHOWN, cursor)
    following = urlencode({"cursor": found.next_cursor}) if found.next_cursor else None
    lines = [_line(context, one) for one in found.items]
    return page(request, "bulk_list.html", operations=lines, following=following, first=cursor is not None)


@router.get("/bulk/new")
def preview(
    request: Request, context: Context, who: Who, on: BulkOn, action: BulkAction, scope: Text = "ticked",
    into: Text = "", reason: Text = "", ids: Annotated[list[str] | None, Query(alias="id")] = None,
    job_id: Text = "", state: Annotated[list[str] | None, Query()] = None, queue: Text = "", since: Text = "",
    until: Text = "", task: Text = "", limit_name: Text = "", limit_key: Text = "", q: Text = "", tag: Text = "",
    paused: Text = "", source: Text = "", last_state: Annotated[list[str] | None, Query()] = None,
) -> Response:  # fmt: skip
    """Say what would happen to the ticked rows, or to all that the filter finds; the form begins it."""
    if action not in ACTIONS[on]:
        raise Problem(422, f"{action} is not for {on}")
    given: dict[str, Any] = {
        "job_id": job_id, "state": state or [], "queue": queue, "since": since, "until": until, "q": q, "tag": tag,
        "paused": paused, "source": source, "task": task, "limit_name": limit_name, "limit_key": limit_key,
        "last_state": last_state or [],
    }  # fmt: skip
    wrong, found, reversible = NOTHING_WRONG, None, True
    wanted: dict[str, Any] = {}
    body: dict[str, Any] = {}
    try:
        wanted = _filter(context, on, given) if scope == "all" else _ticked(on, ids or [])
        body = {"action": action.value, "filter": wanted, **({} if wanted else {"all": True})}
        body |= {name: value for name, value in (("queue", into), ("reason", reason)) if value}
        order = read_order(context, who, on, body)
        found, reversible = plan(context, order), order.is_reversible
    except (BadValue, BadValues) as exc:
        wrong = wrong_of(exc, _LABELS)
    kept = [(name, value) for name, value in request.query_params.multi_items() if name not in ("into", "reason")]
    return page(
        request, "bulk_new.html", wrong=wrong, on=on.value, action=action.value, title=f"{VERBS[action]}: {on}",
        verb=VERBS[action], groups=[] if found is None else _groups(found), plan=found, into=into, reason=reason,
        sample=() if found is None else found.sample, order=json.dumps(body), key=str(uuid7()), kept=kept,
        back=back_of(on, given), asked=asked_text(wanted), reversible=reversible,
    )  # fmt: skip


@router.post("/bulk", dependencies=CHANGER)
def begin_operation(context: Context, who: Who, form: FormBody) -> Response:
    """Begin what a preview showed."""
    on = BulkOn(form.one("on")) if form.one("on") in list(BulkOn) else BulkOn.RUNS
    body = read_json(form.one("order"), "order")
    if not isinstance(body, dict):
        raise BadValue("order", form.one("order")[:100], "send the form of a preview")
    operation = begin(context, who, read_order(context, who, on, body), form.one("key") or None, body)
    return go(f"/bulk/{operation.operation_id}", "bulk-begun")


@router.get("/bulk/{operation_id}")
def show_operation(request: Request, context: Context, operation_id: str) -> Response:
    """Show how far the operation got."""
    return page(request, "bulk.html", one=_line(context, known_operation(context, operation_id)))


@router.post("/bulk/{operation_id}/stop", dependencies=CHANGER)
def stop_operation(context: Context, who: Who, operation_id: str) -> Response:
    """End the operation before its next page."""
    known_operation(context, operation_id)
    context.stores.bulk.stop(operation_id, who)
    return go(f"/bulk/{operation_id}", "bulk-stopped")


@router.post("/bulk/{operation_id}/undo", dependencies=CHANGER)
def undo_operation(context: Context, who: Who, operation_id: str) -> Response:
    """Begin to take back what the operation changed."""
    known_operation(context, operation_id)
    return go(f"/bulk/{undo(context, who, operation_id).operation_id}", "bulk-begun")


def back_of(on: BulkOn, given: Mapping[str, Any]) -> str:
    """Return the address of the list with this filter."""
    pairs = [(name, value) for name in FILTERS[on] for value in _several(given.get(name)) if value]
    return f"/{on}?{urlencode(pairs)}" if pairs else f"/{on}"


def asked_text(wanted: Mapping[str, Any]) -> str:
    """Return the filter of an operation for people."""
    if not wanted:
        return "everything"
    parts = []
    for name, value in wanted.items():
        if name in _IDS.values():
            parts.append(f"{len(value):,} ticked")
        else:
            parts.append(f"{name.replace('_', ' ')} {', '.join(map(str, _several(value)))}")
    return "; ".join(parts)


def _several(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _ticked(on: BulkOn, ids: Sequence[str]) -> dict[str, Any]:
    if not ids:
        raise BadValue("id", None, "tick some rows, or choose all that match")
    return {_IDS[on]: list(ids)}


def _filter(context: ApiContext, on: BulkOn, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filter as REST has it: times absolute, what is empty left out."""
    now = context.clock()
    found = {name: given[name] for name in FILTERS[on] if given[name]}
    for name in ("since", "until"):
        if name in found:
            found[name] = format_instant(read_typed_time(found[name], name, now))
    if "paused" in found:
        found["paused"] = found["paused"] == "true"
    return found


def _groups(found: BulkPlan) -> list[tuple[str, str, str]]:
    return [
        (
            group.what,
            f"{'more than ' if group.total.more else ''}{group.total.number:,}",
            "; ".join(filter(None, (OUTCOMES[group.outcome], group.why)))
            if group.outcome
            else f"left as it is: {group.why}",
        )
        for group in found.groups
    ]


def _line(context: ApiContext, one: BulkOperation) -> OperationLine:
    now, order, progress = context.clock(), one.order, one.progress
    to = f" {order.options['queue']}" if "queue" in order.options else ""
    title = f"{'Undo of: ' if order.undo_of else ''}{VERBS[order.action]}{to}"
    counts = tuple((OUTCOMES.get(name, name), number) for name, number in progress.counts.items())
    filtered = {} if _IDS[order.on] in order.filter else order.filter
    return OperationLine(
        one.operation_id, title, order.on.value, progress.state, progress.seen, max(one.total, progress.seen),
        one.total_more, counts, progress.error, one.actor, moment(one.created_at, now),
        optional_moment(one.finished_at, now), back_of(order.on, filtered), asked_text(order.filter), order.undo_of,
        one.undone_by, one.can_be_undone,
    )  # fmt: skip
