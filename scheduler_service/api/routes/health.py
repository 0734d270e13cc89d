"""Health checks and metrics for orchestrators and Prometheus.

`/healthz` and `/readyz` need no token and never show a secret; `/metrics` asks for one where tokens are set.
"""

from collections.abc import Callable
from typing import Final

from fastapi import APIRouter, Depends, Response
from starlette.responses import JSONResponse, PlainTextResponse

from itinerary.protocol.errors import BrokerUnavailable, StoreUnavailable
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import admit_all, require
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.services.same_redis import other_redis

router = APIRouter(include_in_schema=False)
PUBLIC: Final = [Depends(admit_all)]
PROBED: Final = ["GET", "HEAD"]  # some monitors ask for the head alone
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@router.api_route("/healthz", methods=PROBED, dependencies=PUBLIC)
def healthz() -> Response:
    """Answer that this process is alive."""
    return JSONResponse({"status": "ok"})


@router.api_route("/readyz", methods=PROBED, dependencies=PUBLIC)
def readyz(context: Context) -> Response:
    """Check the database, the leader's Redis and a live leader; 503 names what is missing."""
    checks = {
        "database": _state(_database, context),
        "redis": _state(_redis, context),
        "leader": _state(_leader, context),
    }
    ready = all(state == "ok" for state in checks.values())
    headers = {} if ready else {"Retry-After": "2"}
    return JSONResponse({"status": "ready" if ready else "not ready", **checks}, 200 if ready else 503, headers)


@router.get("/metrics", dependencies=[Depends(require("viewer"))])
def metrics(context: Context) -> Response:
    """Return the leader's own metrics; if none answers, that nobody leads."""
    try:
        text = str(context.ask_leader("metrics")["text"])
    except Problem as refused:
        if refused.status_code == 403:
            raise
        text = _without_leader(context)
    return PlainTextResponse(text + context.logins.exposition(), media_type=_METRICS_TYPE)


def _without_leader(context: ApiContext) -> str:
    lease = context.stores.leases.peek(0)
    return (
        "# HELP scheduler_is_leader Whether this leader leads; 0 where none answers.\n"
        "# TYPE scheduler_is_leader gauge\n"
        "scheduler_is_leader 0\n"
        "# HELP scheduler_leader_term The newest term.\n"
        "# TYPE scheduler_leader_term gauge\n"
        f"scheduler_leader_term {lease.term if lease else 0}\n"
    )


def _state(check: Callable[[ApiContext], str], context: ApiContext) -> str:
    try:
        return check(context)
    except (StoreUnavailable, BrokerUnavailable):
        return "no answer"


def _database(context: ApiContext) -> str:
    context.stores.leases.peek(0)
    return "ok"


def _redis(context: ApiContext) -> str:
    context.stores.inbox.depth()
    other = other_redis(context, context.stores.leases.peek(0))
    return "ok" if other is None else "not the leader's Redis"


def _leader(context: ApiContext) -> str:
    lease = context.stores.leases.peek(0)
    if lease is None or not lease.live:
        return "none leads"
    return "cannot reach Redis or its broker" if lease.without_redis else "ok"
