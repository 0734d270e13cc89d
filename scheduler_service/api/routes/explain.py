"""Explanations over HTTP: the decision about an occurrence or a run, in sentences with their rows. Only reads."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import JSONResponse

from itinerary.protocol.errors import NotFound
from itinerary.protocol.identity import JOB_ID, RUN_ID
from itinerary.protocol.instants import Instant, parse_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import require
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.openapi.documents import answers
from scheduler_service.api.openapi.parameters import AS_TIME
from scheduler_service.api.openapi.record_shapes import ExplanationOut
from scheduler_service.api.routes.runs import READER
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.core.explain.explanation import Explanation, explanation_body
from scheduler_service.core.explain.facts import Facts, Live
from scheduler_service.core.explain.job import explain_occurrence
from scheduler_service.core.explain.run import explain_run
from scheduler_service.core.limits import QUEUE
from scheduler_service.core.model import Run
from scheduler_service.core.run_state import FINAL, WAITING, RunState

router = APIRouter(prefix="/api/v1")
VIEWER = [Depends(require("viewer"))]
At = Annotated[str, Query(description="The instant asked for, RFC 3339.", json_schema_extra=AS_TIME)]


@router.get(
    "/jobs/{job_id}/explain",
    tags=["jobs"],
    dependencies=[Depends(require("viewer"))],
    responses=answers({200: ExplanationOut}, 404, 422),
)
def explain_job(context: Context, job_id: str, at: At) -> Response:
    """Explain the decision about the job at an instant, also for a deleted job."""
    return JSONResponse(explanation_body(why_at(context, job_id, parse_instant(at, "at"))))


@router.get("/runs/{run_id}/explain", tags=["runs"], dependencies=READER, responses=answers({200: ExplanationOut}, 404))
def explain(context: Context, run_id: str) -> Response:
    """Explain the state of a run."""
    return JSONResponse(explanation_body(why_run(context, run_id)))


def why_at(context: ApiContext, job_id: str, at: Instant) -> Explanation:
    """Explain the decision about a job at an instant; NotFound."""
    if not JOB_ID.fullmatch(job_id):
        raise NotFound("no job with such an id")
    facts = _with_live(context, context.stores.evidence.of_occurrence(job_id, at))
    return explain_occurrence(job_id, at, facts)


def why_run(context: ApiContext, run_id: str) -> Explanation:
    """Explain the state of a run; NotFound."""
    if not RUN_ID.fullmatch(run_id):
        raise NotFound("no run with such an id")
    facts = _with_live(context, context.stores.evidence.of_run(run_id))
    if facts.run is None:
        raise NotFound(f"no run {run_id}")
    return explain_run(facts.run, facts)


def _with_live(context: ApiContext, facts: Facts) -> Facts:
    """Add the leader's knowledge of workers and queues, if it can matter and the leader answers."""
    if facts.run is None or facts.run.state in FINAL:
        return facts
    run = facts.run
    head = context.stores.queues.head(run.queue) if run.state is RunState.PENDING else None
    if head is not None:
        facts = replace(facts, in_queue=head.length, none_of_ours=head.none_of_ours)
    job_id = run.job_id if run.state is RunState.SCHEDULED else None
    try:
        context.require_leader()
        job_runs = () if job_id is None else tuple(context.leader.ask("job", job_id).get("live_runs", ()))
        if run.state in WAITING and run.due_at <= facts.now and (waits := _waiting(context.leader, run)) is not None:
            return replace(facts, live=Live(job_runs=job_runs, waiting=waits))
        seen = context.leader.statistics_around(run.queue)
    except Problem:
        return facts  # the explanation then says that no leader answers
    return replace(facts, live=Live(tuple(seen["workers"]), tuple(seen["queues"]), job_runs))


def _waiting(leader: LeaderLine, run: Run) -> Mapping[str, Any] | None:
    """Ask what a due run waits for; of one that memory lacks its limits alone. None: a leader of the release before."""
    answer = leader.ask("waiting", run.run_id)
    if "waiting" not in answer:
        return None
    found: Mapping[str, Any] | None = answer["waiting"]
    if found is not None:
        return found
    full = (leader.ask("limit", named).get("limit") for named in (f"{QUEUE}{run.queue}", *map(str, run.limits)))
    return {"limits": [one for one in full if one is not None]}
