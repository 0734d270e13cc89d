"""The panel "Schedule distribution" and the dialog of a rebalance, as parts of the first page.

Promises: what is shown is the leader's own answer; a rebalance happens only on the dialog's confirmation, from the very
plan that it shows. What goes wrong is said in the part itself.
"""

from typing import Any

from fastapi import APIRouter, Depends, Response

from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import Who, may, require_operator_page, require_page
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.pages.csrf import require_csrf
from scheduler_service.api.pages.templating import part
from scheduler_service.api.routes.balance import ask_for, seen_distribution
from scheduler_service.api.services import balance_views as views

router = APIRouter(include_in_schema=False, dependencies=[Depends(require_page)])
OPERATOR = [Depends(require_operator_page), Depends(require_csrf)]


@router.get("/parts/distribution")
def distribution_part(context: Context, who: Who) -> Response:
    """The panel; it is fetched by the page itself, so that a busy leader never delays the page."""
    shown: dict[str, Any] = {"seen": None, "chart": None, "trouble": None, "may_rebalance": may(who, "operator")}
    try:
        seen = seen_distribution(context)
        shown |= {"seen": seen, "chart": views.distribution_chart(seen)}
    except Problem as problem:
        shown["trouble"] = problem.detail
    return part("_distribution.html", **shown)


@router.post("/parts/rebalance/preview", dependencies=OPERATOR)
def preview_part(context: Context, who: Who) -> Response:
    """The dialog's first view: what would be moved, and what would not, and why."""
    try:
        plan = ask_for(context, who, "preview")
    except Problem as problem:
        return part("_rebalance_trouble.html", trouble=problem.detail)
    before, after = views.plan_charts(plan)
    return part(
        "_rebalance.html",
        plan=plan,
        before=before,
        after=after,
        moves=views.shifts(plan["preview"], "current_time", "proposed_time"),
        skips=views.skips_by_reason(plan["skipped"]),
        listed=views.LISTED,
    )


@router.post("/parts/rebalance", dependencies=OPERATOR)
def rebalance_part(context: Context, who: Who, plan_id: str) -> Response:
    """What the confirmed plan really changed."""
    try:
        return _result(ask_for(context, who, "rebalance", plan_id), "moved")
    except Problem as problem:
        return part("_rebalance_trouble.html", trouble=problem.detail)


@router.post("/parts/rebalance/undo", dependencies=OPERATOR)
def undo_part(context: Context, who: Who) -> Response:
    """What the undoing of the last rebalance really changed."""
    try:
        return _result(ask_for(context, who, "undo"), "moved back")
    except Problem as problem:
        return part("_rebalance_trouble.html", trouble=problem.detail)


def _result(result: dict[str, Any], done: str) -> Response:
    return part(
        "_rebalanced.html",
        result=result,
        done=done,
        moves=views.shifts(result["moved"], "old_time", "new_time"),
        skips=views.skips_by_reason(result["skipped"]),
        listed=views.LISTED,
    )
