"""Bulk operations as requests: what one would do, and its beginning. Shared by REST and pages.

Promises that a dry run changes nothing, and counts at most 10,001 rows of each group.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from itinerary.protocol.run_request import KEY_FIELD, hash_of
from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.auth import demand
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.api.services.limited import out_of_scope
from scheduler_service.core.audit import Caller
from scheduler_service.core.bulk import CHANGEABLE, OUTCOMES, BulkAction, BulkOn, BulkOperation, BulkOrder
from scheduler_service.core.contract.bulk_json import read_bulk
from scheduler_service.core.contract.request_keys import owned_key
from scheduler_service.core.run_state import ACTIVE, IN_FLIGHT, WAITING, RunState
from scheduler_service.ports.bulk import Stepped, jobs_of, runs_of
from scheduler_service.ports.history import Total
from scheduler_service.ports.lists import RunFilter

_SAMPLE: Final = 5
_MOST_HINTS: Final = 500
_RECALLED: Final = "taken back from its queue, where the message may still lie"
_PLANNED: Final = "a schedule planned them"
# Runs of a state that the action changes and that it leaves all the same: the field of the filter, and why.
_KEPT: Final = {BulkAction.DELETE: ("planned", _PLANNED), BulkAction.MOVE: ("recalled", _RECALLED)}
_STAYS: Final = {(BulkAction.PAUSE, True): "paused already", (BulkAction.RESUME, False): "not paused"}


@dataclass(frozen=True, slots=True)
class Group:
    """A part of what matches, and what becomes of it; `why`: why they stay as they are, without an `outcome`."""

    what: str
    total: Total
    outcome: str | None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class BulkPlan:
    """The plan of an operation now: its groups, and the ids of the first that match."""

    order: BulkOrder
    groups: tuple[Group, ...]
    sample: tuple[str, ...]

    @property
    def matching(self) -> Total:
        """Return how many match."""
        return _sum(group.total for group in self.groups)

    @property
    def visited(self) -> Total:
        """Return how many its pages go through: they count runs that stay for one of these reasons."""
        passed = (_PLANNED, _RECALLED)
        return _sum(group.total for group in self.groups if group.outcome is not None or group.why in passed)

    @property
    def changing(self) -> Total:
        """Return how many it changes."""
        return _sum(group.total for group in self.groups if group.outcome is not None)


def read_order(context: ApiContext, who: Caller, on: BulkOn, body: Mapping[str, Any]) -> BulkOrder:
    """Read the operation that the body asks for; Problem 403 if the caller may not."""
    order = read_bulk(on, body, context.clock())
    if order.action is BulkAction.DELETE:
        demand(who, "admin", f"deleting {on}")
    queue = order.options.get("queue")
    if queue is not None and not who.limits.has_queue(queue):
        raise out_of_scope(f"queue {queue}")
    return order


def plan(context: ApiContext, order: BulkOrder) -> BulkPlan:
    """Say what the operation would do."""
    if order.on is BulkOn.RUNS:
        wanted = runs_of(order)
        found = context.stores.runs.list(_kept(order.action, wanted, False), _SAMPLE, None).items
        return BulkPlan(order, tuple(_runs(context, order)), tuple(run.run_id for run in found))
    jobs = context.stores.jobs.list(jobs_of(order), _SAMPLE, None).items
    return BulkPlan(order, tuple(_jobs(context, order)), tuple(job.job_id for job in jobs))


def begin(
    context: ApiContext, who: Caller, order: BulkOrder, key: str | None, body: Mapping[str, Any]
) -> BulkOperation:
    """Begin the operation and carry out its first page; the bulk workers of all APIs carry on."""
    given = {name: value for name, value in body.items() if name not in (KEY_FIELD, "dry_run")}
    stored_key = None if key is None else owned_key(key, who)
    operation, created = context.stores.bulk.begin(
        order, plan(context, order).visited, who, stored_key, hash_of({"on": order.on.value, **given})
    )
    return _first_page(context, operation) if created else operation


def undo(context: ApiContext, who: Caller, operation_id: str) -> BulkOperation:
    """Begin to take back what the operation changed."""
    before = context.stores.bulk.get(operation_id)
    if before.order.action is BulkAction.DELETE:
        demand(who, "admin", "taking back a deletion")
    order = replace(before.order, undo_of=before.operation_id)
    operation, _ = context.stores.bulk.begin(order, Total(before.progress.seen, False), who)
    return _first_page(context, operation)


def tell(leader: LeaderLine, stepped: Stepped) -> None:
    """Tell the leader of what a page changed, so that it need not wait for its own poll."""
    for run_id in stepped.stopping[:_MOST_HINTS]:
        leader.tell("cancel_run", {"run_id": run_id})
    if stepped.created:
        leader.tell("run_enqueued", {"run_ids": list(stepped.created)})
    if stepped.moved:
        leader.tell("runs_moved", {"run_ids": list(stepped.moved)})
    for job_id in stepped.jobs[:_MOST_HINTS]:
        leader.tell("job_changed", {"job_id": job_id, "change": "modified"})


def _first_page(context: ApiContext, operation: BulkOperation) -> BulkOperation:
    # If we die here, a bulk worker carries on.
    stepped = context.stores.bulk.step(operation.operation_id)
    if stepped is None:
        return context.stores.bulk.get(operation.operation_id)
    tell(context.leader, stepped)
    return stepped.operation


def _runs(context: ApiContext, order: BulkOrder) -> Iterator[Group]:
    wanted = runs_of(order)
    for state in wanted.states or tuple(RunState):
        for stay in (False, True) if state in CHANGEABLE[order.action] and order.action in _KEPT else (None,):
            total = context.stores.history.count_runs(_kept(order.action, replace(wanted, states=(state,)), stay))
            if total.number or total.more:
                why = (None, _KEPT[order.action][1]) if stay else _becomes(order.action, state)
                yield Group(state.value, total, *why)


def _kept(action: BulkAction, wanted: RunFilter, stay: bool | None) -> RunFilter:
    """Return the filter of those runs that the action leaves as they are, or of the others; None: of all."""
    named: dict[str, Any] = {_KEPT[action][0]: stay} if action in _KEPT else {}
    return replace(wanted, **named)


def _becomes(action: BulkAction, state: RunState) -> tuple[str | None, str | None]:
    if state not in CHANGEABLE[action]:
        if action is BulkAction.MOVE and state in IN_FLIGHT:
            return None, "sent to its queue already"
        return None, "not over yet" if state in ACTIVE else "over already"
    if action is BulkAction.CANCEL:
        return "cancelled" if state in WAITING else "cancel_requested", None
    return OUTCOMES.get(action, "retried"), None


def _jobs(context: ApiContext, order: BulkOrder) -> Iterator[Group]:
    wanted = jobs_of(order)
    for paused in (False, True) if wanted.paused is None else (wanted.paused,):
        total = context.stores.history.count_jobs(replace(wanted, paused=paused))
        why = _STAYS.get((order.action, paused))
        if total.number or total.more:
            outcome = None if why else OUTCOMES[order.action]
            yield Group("paused" if paused else "active", total, outcome, why)


def _sum(totals: Iterator[Total]) -> Total:
    every = list(totals)
    return Total(sum(total.number for total in every), any(total.more for total in every))
