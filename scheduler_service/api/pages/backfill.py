"""The page of a job's backfill: shows which runs of a past window would be created, then creates them."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import parse_instant
from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.pages.csrf import FormBody
from scheduler_service.api.pages.moments import Moment, moment, utc_text
from scheduler_service.api.pages.reader_zone import follow_job
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Wrong, or_again, wrong_of
from scheduler_service.api.routes.backfill import backfilled
from scheduler_service.api.routes.jobs import known_job
from scheduler_service.core.contract.backfill import OVERLAPS
from scheduler_service.core.schedules.preview import Occurrence, occurrence
from scheduler_service.core.schedules.schedule import zone_of

_WHY: Final = (("completed", "completed"), ("active", "under way"), ("planned", "waiting already"))
_LABELS: Final = {"from": "From ({zone})", "to": "Up to ({zone}, exclusive)", "overlap": "Run them"}
_HOW: Final = {"queue_all": "one after the other", "allow": "all at once"}

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)
Asked = Annotated[str, Query(max_length=40)]


@dataclass(frozen=True, slots=True)
class BackfillPreview:
    """The result of a dry run, for the page; `first` are the first times in the job's zone."""

    answer: dict[str, Any]
    left_out: str
    first: list[tuple[Moment, Occurrence]]


@router.get("/jobs/{job_id}/backfill")
def preview_backfill(
    request: Request, context: Context, who: Who, job_id: str,
    start: Annotated[Asked, Query(alias="from")] = "", end: Annotated[Asked, Query(alias="to")] = "",
    overlap: Asked = OVERLAPS[0].value,
) -> Response:  # fmt: skip
    """Show the form and, if a window is given, its runs; creates nothing."""
    job = known_job(context, job_id)
    follow_job(zone_of(job.schedule))
    seen, wrong = None, NOTHING_WRONG
    if start or end:
        asked = {"from": utc_text(start), "to": utc_text(end), "overlap": overlap, "dry_run": True}
        try:
            answer = backfilled(context, who, job_id, asked)
        except (BadValue, BadValues) as exc:
            wrong = wrong_of(exc, _LABELS)
        else:
            now, times = context.clock(), [parse_instant(at) for at in answer["first"]]
            first = [(moment(at, now), occurrence(job.schedule, at)) for at in times]
            left_out = [f"{answer['left_out'][name]:,} {text}" for name, text in _WHY if answer["left_out"][name]]
            seen = BackfillPreview(answer, ", ".join(left_out), first)
    return page(
        request, "backfill.html", wrong=wrong, job=job, seen=seen, choices=_HOW,
        fields={"from": start, "to": end, "overlap": overlap},
    )  # fmt: skip


@router.post("/jobs/{job_id}/backfill", dependencies=CHANGER)
def create_backfill(request: Request, context: Context, who: Who, job_id: str, form: FormBody) -> Response:
    """Create the runs that were shown, then go to the page of the job."""

    def act() -> Response:
        answer = backfilled(context, who, job_id, {name: form.one(name) or None for name in _LABELS})
        return go(f"/jobs/{job_id}", "backfilled" if answer["run_ids"] else "none-backfilled")

    def again(wrong: Wrong) -> Response:
        fields = {name: form.one(name) for name in _LABELS}
        job = known_job(context, job_id)
        return page(request, "backfill.html", wrong=wrong, job=job, seen=None, choices=_HOW, fields=fields)

    return or_again(act, again, _LABELS)
