"""The page of one job and its actions: pause, skip, run now, delete."""

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import MICROSECOND, format_instant, parse_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who, demand
from scheduler_service.api.http.bodies import read_json
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.pages.csrf import Form, FormBody
from scheduler_service.api.pages.instant_picture import VERDICTS, picture_of
from scheduler_service.api.pages.job_view import view_of
from scheduler_service.api.pages.moments import read_time
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, address_of, go, page
from scheduler_service.api.pages.wrong import Reader, Wrong, or_again
from scheduler_service.api.routes.explain import why_at
from scheduler_service.api.routes.jobs import delete_job, known_job, pause_job, resume_job, triggered
from scheduler_service.api.services.previews import next_runs
from scheduler_service.core.audit import Caller
from scheduler_service.core.explain.explanation import Explanation

_LABELS: Final = {
    "at": "At ({zone})", "reason": "Why", "until": "Until", "kwargs": "Arguments by name",
    "limits": "Limits in place of the job's", "fair_key": "Fair key in place of the job's",
    "overlap": "If another run is not over", "confirm": "The job's id, to delete it",
}  # fmt: skip
_SKIPPED: Final = "the next run is skipped"

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@router.get("/jobs/{job_id}")
def show_job(
    request: Request,
    context: Context,
    job_id: str,
    at: Annotated[str, Query(max_length=40)] = "",
    before: Annotated[int | None, Query(ge=1)] = None,
    after: Annotated[int | None, Query(ge=1)] = None,
) -> Response:
    """Show the job; if `at` is given, the decision for that instant, if two versions are, what differs."""
    reader = Reader(_LABELS)
    why = reader.tried(lambda: why_at(context, job_id, read_time(at, "at"))) if at else None
    pair = None if before is None or after is None else (before, after)
    return _show(request, context, job_id, reader.wrong(), {"at": at}, why, pair)


def _show(
    request: Request,
    context: ApiContext,
    job_id: str,
    wrong: Wrong,
    typed: Mapping[str, str],
    why: Explanation | None = None,
    pair: tuple[int, int] | None = None,
) -> Response:
    seen = view_of(context, known_job(context, job_id), pair)
    address = f"/jobs/{quote(job_id, safe='')}" if request.method == "POST" else address_of(request)
    return page(
        request, "job.html", wrong=wrong, seen=seen, typed=typed, at=typed.get("at", ""), why=why, address=address,
        picture=None if why is None else picture_of(why, context.clock()), verdicts=VERDICTS,
    )  # fmt: skip


@router.post("/jobs/{job_id}/pause", dependencies=CHANGER)
def pause(request: Request, context: Context, who: Who, job_id: str, form: FormBody) -> Response:
    """Pause the job, indefinitely or until a time."""

    def act() -> Response:
        body = {
            "reason": form.one("reason") or None,
            "until": form.time("until") or None,
            "waiting": "skip" if form.one("skip_waiting") else "keep",
        }
        pause_job(context, who, job_id, body)
        return go(f"/jobs/{job_id}", "paused")

    return or_again(act, lambda wrong: _show(request, context, job_id, wrong, form.texts()), _LABELS)


@router.post("/jobs/{job_id}/skip-next", dependencies=CHANGER)
def skip_next(request: Request, context: Context, who: Who, job_id: str) -> Response:
    """Skip only the next run: a pause that ends right after it."""
    return or_again(
        lambda: _skipped(context, who, job_id), lambda wrong: _show(request, context, job_id, wrong, {}), _LABELS
    )


def _skipped(context: ApiContext, who: Caller, job_id: str) -> Response:
    job = known_job(context, job_id)
    coming = next_runs(job, context.clock(), 1)
    if job.paused or not coming:
        raise Problem(409, f"{job_id} is paused or has no next run, so there is none to skip", kind="nothing-to-skip")
    until = format_instant(parse_instant(coming[0]) + MICROSECOND)
    # Never replace a pause that another caller began meanwhile: this one would end it.
    pause_job(context, who, job_id, {"reason": _SKIPPED, "until": until}, f'"{job.version}"')
    return go(f"/jobs/{job_id}", "skipped")


@router.post("/jobs/{job_id}/resume", dependencies=CHANGER)
def resume(context: Context, who: Who, job_id: str) -> Response:
    """Resume the job."""
    resume_job(context, who, job_id)
    return go(f"/jobs/{job_id}", "resumed")


@router.post("/jobs/{job_id}/trigger", dependencies=CHANGER)
def trigger(request: Request, context: Context, who: Who, job_id: str, form: FormBody) -> Response:
    """Run the job now, then go to the page of the run."""
    return or_again(
        lambda: go(f"/runs/{triggered(context, who, job_id, _asked(form)).run_id}", "triggered"),
        lambda wrong: _show(request, context, job_id, wrong, form.texts()),
        _LABELS,
    )


@router.post("/jobs/{job_id}/delete", dependencies=CHANGER)
def delete(request: Request, context: Context, who: Who, job_id: str, form: FormBody) -> Response:
    """Delete the job if its name was typed."""
    demand(who, "admin", "deleting jobs")

    def act() -> Response:
        if form.one("confirm") != job_id:
            raise BadValue("confirm", form.one("confirm"), f"type {job_id} to delete the job")
        delete_job(context, who, job_id)
        return go("/jobs", "deleted")

    return or_again(act, lambda wrong: _show(request, context, job_id, wrong, form.texts()), _LABELS)


def _asked(form: Form) -> dict[str, Any]:
    body: dict[str, Any] = {name: form.one(name) or None for name in ("overlap", "fair_key")}
    read = {name: read_json(text, name) for name in ("kwargs", "limits") if (text := form.one(name))}
    return {**body, "force": bool(form.one("force")), **read}
