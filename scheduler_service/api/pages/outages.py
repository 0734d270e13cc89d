"""Outages: gaps of many jobs that lie in one stretch of time, told as one, and backfilled together.

Promises: making is repeated without harm, since each job's backfill leaves out what was made before; a job that is gone
or cannot be backfilled is named and hinders no other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from itinerary.protocol.errors import BadValue, BadValues, Conflict, NotFound
from itinerary.protocol.instants import MICROSECOND, MINUTE, Instant, format_instant, parse_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.auth import Who
from scheduler_service.api.pages.csrf import FormBody
from scheduler_service.api.pages.gaps import GapLine, gap_line
from scheduler_service.api.pages.live import TROUBLES
from scheduler_service.api.pages.moments import Moment, moment
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Wrong, or_again, wrong_of
from scheduler_service.api.routes.backfill import backfilled
from scheduler_service.core.audit import Caller
from scheduler_service.core.model import Gap

_TOGETHER: Final = MINUTE
_LISTED: Final = 200
_AT_ONCE: Final = 50
_LABELS: Final = {"from": "From", "to": "Up to"}

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Outage:
    """From the first to the last occurrence that did not run; `start` and `end` bound it exactly, as RFC 3339."""

    first: Moment
    last: Moment
    start: str
    end: str
    runs: int
    jobs: int
    gaps: list[GapLine]


@dataclass(frozen=True, slots=True)
class ToBackfill:
    """What a backfill of one job's gap would make, or why it cannot."""

    gap: GapLine
    runs: int
    refused: str | None


def outages(gaps: Sequence[Gap], now: Instant) -> list[Outage]:
    """The latest first; gaps less than a minute apart are of one outage."""
    found: list[list[Gap]] = []
    end: Instant | None = None
    for gap in sorted(gaps, key=lambda gap: gap.start):
        if end is not None and gap.start <= end + _TOGETHER:
            found[-1].append(gap)
            end = max(end, gap.end)
        else:
            found.append([gap])
            end = gap.end
    return [_outage(together, now) for together in reversed(found)]


def _outage(gaps: Sequence[Gap], now: Instant) -> Outage:
    start, end = min(gap.start for gap in gaps), max(gap.end for gap in gaps)
    in_order = sorted(gaps, key=lambda gap: gap.count, reverse=True)
    return Outage(
        moment(start, now), moment(end - MICROSECOND, now), format_instant(start), format_instant(end),
        sum(gap.count for gap in gaps), len({gap.job_id for gap in gaps}),
        [gap_line(gap, now) for gap in in_order[:_LISTED]],
    )  # fmt: skip


@router.get("/failures/backfill")
def look_at_outage(
    request: Request, context: Context, who: Who,
    start: Annotated[str, Query(alias="from", max_length=40)], end: Annotated[str, Query(alias="to", max_length=40)],
) -> Response:  # fmt: skip
    """What backfilling an outage would run; nothing is made."""
    try:
        gaps = _gaps_of(context, start, end)
    except BadValue as exc:
        return _show(request, context, who, [], start, end, wrong_of(exc, _LABELS))
    return _show(request, context, who, gaps, start, end)


@router.post("/failures/backfill", dependencies=CHANGER)
def backfill_outage(request: Request, context: Context, who: Who, form: FormBody) -> Response:
    """Make what was looked at, one job after the other."""
    start, end = form.one("from"), form.one("to")

    def act() -> Response:
        looked = list(_to_backfill(context, who, _gaps_of(context, start, end)))
        made = [_made(context, who, item.gap) for item in looked if item.runs]
        jobs = sum(1 for count in made if count)
        back = "/failures?within=7d"
        return go(back, "all-backfilled", sum(made), jobs) if jobs else go(back, "none-backfilled")

    return or_again(act, lambda wrong: _show(request, context, who, [], start, end, wrong), _LABELS)


def _gaps_of(context: ApiContext, start: str, end: str) -> list[Gap]:
    """The gaps that lie between these times."""
    first, after = parse_instant(start, "from"), parse_instant(end, "to")
    found = context.stores.history.gaps(first, TROUBLES)
    return [gap for gap in found if gap.start >= first and gap.end <= after]


def _to_backfill(context: ApiContext, who: Caller, gaps: Sequence[Gap]) -> Iterator[ToBackfill]:
    """The first jobs that have something to run, and those before them that cannot."""
    now, found = context.clock(), 0
    for gap in sorted(gaps, key=lambda gap: (gap.job_id, gap.start))[:_LISTED]:
        line = gap_line(gap, now)
        try:
            runs = backfilled(context, who, gap.job_id, _window(line, dry_run=True))["runs"]
        except (NotFound, Conflict, BadValue, BadValues) as exc:
            yield ToBackfill(line, 0, str(exc))
            continue
        if runs:
            yield ToBackfill(line, runs, None)
            found += 1
            if found == _AT_ONCE:
                return


def _made(context: ApiContext, who: Caller, gap: GapLine) -> int:
    try:
        return len(backfilled(context, who, gap.job_id, _window(gap, dry_run=False))["run_ids"])
    except (NotFound, Conflict, BadValue, BadValues):
        return 0  # deleted or edited since it was looked at


def _window(gap: GapLine, *, dry_run: bool) -> dict[str, Any]:
    end = format_instant(parse_instant(gap.last.iso) + MICROSECOND)
    return {"from": gap.first.iso, "to": end, "dry_run": dry_run}


def _show(
    request: Request, context: ApiContext, who: Caller, gaps: Sequence[Gap], start: str, end: str,
    wrong: Wrong = NOTHING_WRONG,
) -> Response:  # fmt: skip
    looked = list(_to_backfill(context, who, gaps))
    return page(
        request, "outage.html", wrong=wrong, outage=_outage(gaps, context.clock()) if gaps else None,
        items=[item for item in looked if item.runs], refused=[item for item in looked if item.refused],
        runs=sum(item.runs for item in looked), start=start, end=end, at_once=_AT_ONCE,
    )  # fmt: skip
