"""Outages: missed ranges of many jobs that lie close in time, shown as one and backfilled together.

Promises: repeating a backfill does no harm, since each job's backfill skips the runs created before. A job that is gone
or cannot be backfilled is named and blocks no other.
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
from scheduler_service.api.pages.live import TROUBLES
from scheduler_service.api.pages.missed_ranges import MissedRangeLine, missed_range_line
from scheduler_service.api.pages.moments import Moment, moment
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Wrong, or_again, wrong_of
from scheduler_service.api.routes.backfill import backfilled
from scheduler_service.core.audit import Caller
from scheduler_service.core.model import MissedRange

_TOGETHER: Final = MINUTE
_LISTED: Final = 200
_AT_ONCE: Final = 50
_LABELS: Final = {"from": "From", "to": "Up to"}

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Outage:
    """The range from the first to the last missed occurrence; `start` and `end` bound it exactly, as RFC 3339."""

    first: Moment
    last: Moment
    start: str
    end: str
    runs: int
    jobs: int
    missed_ranges: list[MissedRangeLine]


@dataclass(frozen=True, slots=True)
class ToBackfill:
    """The runs that a backfill of one job's missed range would create, or the reason for none."""

    missed_range: MissedRangeLine
    runs: int
    refused: str | None


def outages(missed_ranges: Sequence[MissedRange], now: Instant) -> list[Outage]:
    """Group missed ranges, the latest first; ranges less than a minute apart belong to one outage."""
    found: list[list[MissedRange]] = []
    end: Instant | None = None
    for missed_range in sorted(missed_ranges, key=lambda missed_range: missed_range.start):
        if end is not None and missed_range.start <= end + _TOGETHER:
            found[-1].append(missed_range)
            end = max(end, missed_range.end)
        else:
            found.append([missed_range])
            end = missed_range.end
    return [_outage(together, now) for together in reversed(found)]


def _outage(missed_ranges: Sequence[MissedRange], now: Instant) -> Outage:
    start, end = (
        min(missed_range.start for missed_range in missed_ranges),
        max(missed_range.end for missed_range in missed_ranges),
    )
    in_order = sorted(missed_ranges, key=lambda missed_range: missed_range.count, reverse=True)
    return Outage(
        moment(start, now), moment(end - MICROSECOND, now), format_instant(start), format_instant(end),
        sum(one.count for one in missed_ranges), len({one.job_id for one in missed_ranges}),
        [missed_range_line(missed_range, now) for missed_range in in_order[:_LISTED]],
    )  # fmt: skip


@router.get("/failures/backfill")
def show_outage(
    request: Request, context: Context, who: Who,
    start: Annotated[str, Query(alias="from", max_length=40)], end: Annotated[str, Query(alias="to", max_length=40)],
) -> Response:  # fmt: skip
    """Show the runs that a backfill of the outage would create; creates nothing."""
    try:
        missed_ranges = _missed_ranges_of(context, start, end)
    except BadValue as exc:
        return _show(request, context, who, [], start, end, wrong_of(exc, _LABELS))
    return _show(request, context, who, missed_ranges, start, end)


@router.post("/failures/backfill", dependencies=CHANGER)
def backfill_outage(request: Request, context: Context, who: Who, form: FormBody) -> Response:
    """Create the runs shown, one job after the other."""
    start, end = form.one("from"), form.one("to")

    def act() -> Response:
        previews = list(_to_backfill(context, who, _missed_ranges_of(context, start, end)))
        created = [_created(context, who, item.missed_range) for item in previews if item.runs]
        jobs = sum(1 for count in created if count)
        back = "/failures?within=7d"
        return go(back, "all-backfilled", sum(created), jobs) if jobs else go(back, "none-backfilled")

    return or_again(act, lambda wrong: _show(request, context, who, [], start, end, wrong), _LABELS)


def _missed_ranges_of(context: ApiContext, start: str, end: str) -> list[MissedRange]:
    """Return the missed ranges between these times."""
    first, after = parse_instant(start, "from"), parse_instant(end, "to")
    found = context.stores.history.missed_ranges(first, TROUBLES)
    return [missed_range for missed_range in found if missed_range.start >= first and missed_range.end <= after]


def _to_backfill(context: ApiContext, who: Caller, missed_ranges: Sequence[MissedRange]) -> Iterator[ToBackfill]:
    """Return the first jobs that have runs to create, and those before them that cannot."""
    now, found = context.clock(), 0
    for missed_range in sorted(missed_ranges, key=lambda missed_range: (missed_range.job_id, missed_range.start))[
        :_LISTED
    ]:
        line = missed_range_line(missed_range, now)
        try:
            runs = backfilled(context, who, missed_range.job_id, _window(line, dry_run=True))["runs"]
        except (NotFound, Conflict, BadValue, BadValues) as exc:
            yield ToBackfill(line, 0, str(exc))
            continue
        if runs:
            yield ToBackfill(line, runs, None)
            found += 1
            if found == _AT_ONCE:
                return


def _created(context: ApiContext, who: Caller, missed_range: MissedRangeLine) -> int:
    try:
        return len(backfilled(context, who, missed_range.job_id, _window(missed_range, dry_run=False))["run_ids"])
    except (NotFound, Conflict, BadValue, BadValues):
        return 0  # deleted or edited since the page was shown


def _window(missed_range: MissedRangeLine, *, dry_run: bool) -> dict[str, Any]:
    end = format_instant(parse_instant(missed_range.last.iso) + MICROSECOND)
    return {"from": missed_range.first.iso, "to": end, "dry_run": dry_run}


def _show(
    request: Request, context: ApiContext, who: Caller, missed_ranges: Sequence[MissedRange], start: str, end: str,
    wrong: Wrong = NOTHING_WRONG,
) -> Response:  # fmt: skip
    previews = list(_to_backfill(context, who, missed_ranges))
    return page(
        request, "outage.html", wrong=wrong, outage=_outage(missed_ranges, context.clock()) if missed_ranges else None,
        items=[item for item in previews if item.runs], refused=[item for item in previews if item.refused],
        runs=sum(item.runs for item in previews), start=start, end=end, at_once=_AT_ONCE,
    )  # fmt: skip
