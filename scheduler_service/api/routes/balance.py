"""The schedule's distribution over HTTP, and its rebalance: preview, execution, undo. The leader decides."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Depends, Response
from starlette.responses import JSONResponse
from uuid_utils.compat import uuid7

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import SECOND, Duration
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, require
from scheduler_service.api.http.bodies import OptionalJsonObject
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.openapi import balance_shapes as shapes
from scheduler_service.api.openapi.documents import answers, body_of
from scheduler_service.core.audit import Caller
from scheduler_service.core.balancing.placements import RebalanceKind
from scheduler_service.core.contract.fields import read_text

router = APIRouter(prefix="/api/v1/scheduler", tags=["scheduler"], dependencies=[Depends(require("viewer"))])
OPERATOR = [Depends(require("operator"))]
# Planning for a hundred thousand jobs takes seconds, and so does storing the plan.
PLANNED_WITHIN: Final[Duration] = 30 * SECOND


@router.get("/distribution", responses=answers({200: shapes.DistributionOut}))
def distribution(context: Context) -> Response:
    """Show the load of the next 24 hours, hour by hour in UTC, and how even it is."""
    return JSONResponse(seen_distribution(context))


@router.post("/rebalance/preview", responses=answers({200: shapes.PreviewOut}))
def preview(context: Context, who: Who) -> Response:
    """Show which jobs a rebalance would move, and why it leaves the others; changes nothing.

    The plan lives ten minutes.
    """
    return JSONResponse(ask_for(context, who, "preview"))


@router.post(
    "/rebalance", dependencies=OPERATOR, openapi_extra=body_of(shapes.RebalanceIn, required=False),
    responses=answers({200: shapes.RebalanceOut}, 400, 409, 413, 422),
)  # fmt: skip
def rebalance(context: Context, who: Who, body: OptionalJsonObject) -> Response:
    """Even out the schedule by the plan of a preview, or by a new one. A job edited since then stays."""
    return JSONResponse(ask_for(context, who, "rebalance", _plan_id(body)))


@router.post("/rebalance/undo", dependencies=OPERATOR, responses=answers({200: shapes.RebalanceOut}, 409))
def undo(context: Context, who: Who) -> Response:
    """Undo the last rebalance for the jobs that are still at their new place."""
    return JSONResponse(ask_for(context, who, "undo"))


def seen_distribution(context: ApiContext) -> dict[str, Any]:
    """Return the distribution as the leader sees it; Problem 503 if none answers."""
    context.require_leader()
    return dict(context.leader.request("query", {"what": "distribution"}, PLANNED_WITHIN))


def ask_for(context: ApiContext, who: Caller, kind: RebalanceKind, plan_id: str | None = None) -> dict[str, Any]:
    """Return the leader's answer; Problem 409 with its reason if it refuses."""
    context.require_leader()
    wanted = {"kind": kind, "known_plan": plan_id is not None, "plan_id": plan_id or str(uuid7())}
    answer: Mapping[str, Any] = context.leader.request(
        "rebalance", {**wanted, "actor": who.name, "role": who.role}, PLANNED_WITHIN
    )
    if "error" in answer:
        raise Problem(409, str(answer["error"]), kind="rebalance-refused")
    return dict(answer)


def _plan_id(body: dict[str, Any]) -> str | None:
    unknown = [BadValue(name, body[name], "the known field is plan_id") for name in sorted({*body} - {"plan_id"})]
    if unknown:
        raise BadValues(unknown)
    plan_id = body.get("plan_id")
    if plan_id is None:
        return None
    if not 0 < len(read_text(plan_id, "plan_id")) <= shapes.LONGEST_PLAN_ID:
        raise BadValue("plan_id", plan_id, "give the plan_id of a preview")
    return str(plan_id)
