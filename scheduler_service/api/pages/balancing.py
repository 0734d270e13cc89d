"""The panel "Schedule distribution" and the rebalance dialog, as parts of the first page.

Promises: the figures are the leader's own answer. A rebalance happens only on the dialog's confirmation, and carries
out exactly the plan shown. Each part shows its own errors.
"""

from typing import Any

from fastapi import APIRouter, Depends, Response

from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import Who, may, require_operator_page, require_page
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.pages.csrf import require_csrf
from scheduler_service.api.pages.reader_zone import follow_reader
from scheduler_service.api.pages.templating import part
from scheduler_service.api.routes.balance import ask_for, seen_distribution
from scheduler_service.api.services import balance_views as views

router = APIRouter(include_in_schema=False, dependencies=[Depends(require_page), Depends(follow_reader)])
OPERATOR = [Depends(require_operator_page), Depends(require_csrf)]


@router.get("/parts/distribution")
def distribution_part(context: Context, who: Who) -> Response:
    """Show the panel; the page fetches it separately, so that a busy leader never delays the page."""
    shown: dict[str, Any] = {"seen": None, "chart": None, "trouble": None, "may_rebalance": may(who, "operator")}
    try:
        seen = seen_distribution(context)
        shown |= {"seen": seen, "chart": views.distribution_chart(seen)}
    except Problem as problem:
        shown["trouble"] = problem.detail
    return part("_distribution.html", **shown)


@router.post("/parts/rebalance/preview", dependencies=OPERATOR)
def preview_part(context: Context, who: Who) -> Response:
    """Show the dialog's first view: the jobs to move, the others, and the reasons."""
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
    """Carry out the confirmed plan and show its changes."""
    try:
        return _result(ask_for(context, who, "rebalance", plan_id), "moved")
    except Problem as problem:
        return part("_rebalance_trouble.html", trouble=problem.detail)


@router.post("/parts/rebalance/undo", dependencies=OPERATOR)
def undo_part(context: Context, who: Who) -> Response:
    """Undo the last rebalance and show the changes."""
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
