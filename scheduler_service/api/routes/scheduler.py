"""The leader's live state over HTTP: status and workers.

The leader's figures are asked through the inbox, the lease is read from the database. What nobody answers is null.
"""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Depends, Response
from starlette.responses import JSONResponse

from itinerary.protocol.errors import BrokerUnavailable
from itinerary.protocol.instants import format_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import require
from scheduler_service.api.openapi import answers as shapes
from scheduler_service.api.openapi.documents import answers
from scheduler_service.api.openapi.worker_shapes import KnownTasks, Workers
from scheduler_service.api.services.known_tasks import names_of
from scheduler_service.api.services.same_redis import other_servers
from scheduler_service.api.services.who_leads import ask_holder
from scheduler_service.core.schedules.zone_rules import installed_rules

router = APIRouter(prefix="/api/v1", tags=["scheduler"], dependencies=[Depends(require("viewer"))])
_LIVE = ("index_runs", "last_rebuild_at", "last_iteration_at", "oldest_due_at", "active_runs")


@router.get("/scheduler/status", responses=answers({200: shapes.Status}))
def status(context: Context) -> Response:
    """Return the leader, its start and its view; the leader's figures are null if none answers."""
    return JSONResponse(status_body(context))


def status_body(context: ApiContext) -> dict[str, Any]:
    """Build the status as JSON: the lease from the database, the rest from the leader itself."""
    lease, figures = ask_holder(context.stores.leases, context.leader)
    leads = lease if lease is not None and lease.live else None
    live: Mapping[str, Any] = figures or {}
    workers = live.get("workers")
    inbox_depth = _inbox_depth(context)
    return {
        "leader": leads.holder if leads else None,
        "term": lease.term if lease else None,
        "since": format_instant(leads.acquired_at) if leads else None,
        "last_leader": lease.holder if lease else None,
        "last_heard_at": format_instant(lease.last_seen_at) if lease else None,
        "leader_answers": None if leads is None else figures is not None,
        "leader_without_redis": leads.without_redis if leads else None,
        "other_than_leaders": None if inbox_depth is None else other_servers(context, lease),
        "zone_rules": leads.zone_rules if leads else None,
        "zone_rules_api": installed_rules().version,
        "zone_rules_standby": leads.standby_zone_rules if leads else None,
        **{name: live.get(name) for name in _LIVE},
        "inbox_depth": inbox_depth,
        "workers": None if workers is None else sum(1 for worker in workers if worker["alive"]),
    }


@router.get("/workers", responses=answers({200: Workers}))
def workers(context: Context) -> Response:
    """List the workers that the leader knows, and their runs."""
    names = ("name", "alive", "last_seen_at", "concurrency", "running", "queues")
    newer = ("version", "since")  # a leader or a worker of the release before tells neither
    seen = context.ask_leader("statistics")["workers"]
    items = [
        {**{name: worker[name] for name in names}, **{name: worker.get(name) for name in newer}} for worker in seen
    ]
    return JSONResponse({"items": items})


@router.get("/tasks", responses=answers({200: KnownTasks}, 403))
def tasks(context: Context) -> Response:
    """List the tasks that living workers say they know; not for limited tokens."""
    known = names_of(context.ask_leader("tasks"))
    return JSONResponse({"items": known.names, "complete": known.complete})


def _inbox_depth(context: ApiContext) -> int | None:
    try:
        return context.stores.inbox.depth()
    except BrokerUnavailable:
        return None
