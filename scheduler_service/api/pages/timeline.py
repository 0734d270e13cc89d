"""The timeline page: runs as bars in lanes, from a year down to a second. Every view is an address; changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request, Response

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant, format_instant, parse_instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.pages.moments import SHAPES, read_time, typed_time
from scheduler_service.api.pages.reader_zone import reader_zone
from scheduler_service.api.pages.shell import READER, PageRoute, page
from scheduler_service.api.pages.time_axis import place, ticks
from scheduler_service.api.pages.timeline_bands import bands_of
from scheduler_service.api.pages.timeline_chart import Links, lane_charts
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Reader
from scheduler_service.api.routes.timeline import LONGEST, SHORTEST, FirstLane, span_of
from scheduler_service.api.services.planned_runs import planned_runs
from scheduler_service.api.services.timelines import LANES, PARTS, Detail, Lane, Timeline, read_timeline
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.run_state import RunState
from scheduler_service.core.schedules.zones import zone
from scheduler_service.ports.stores import RunFilter
from scheduler_service.ports.timeline import LaneKind, Span

WITHIN: Final = {"10m": 10 * MINUTE, "1h": HOUR, "6h": 6 * HOUR, "24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY}
_LAST_YEAR: Final = parse_instant("9999-01-01T00:00:00Z")
_LABELS: Final = {
    "job_id": "Job", "queue": "Queue", "from": "From ({zone})", "to": "To ({zone})", "state": "States"
}  # fmt: skip
_LANES: Final = {LaneKind.JOB: "Job", LaneKind.QUEUE: "Queue", LaneKind.WORKER: "Worker", LaneKind.TASK: "Task"}
_NOBODY: Final = {LaneKind.JOB: "without a job", LaneKind.WORKER: "not started"}

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)
Text = Annotated[str, Query(max_length=128)]


@dataclass(frozen=True, slots=True)
class Address:
    """The query of the page, to be changed by its links."""

    kept: Sequence[tuple[str, str]]

    def __call__(self, **changed: str) -> str:
        """Return the address with these parameters; an empty one is left out."""
        pairs = [(name, value) for name, value in self.kept if name not in changed]
        return f"/timeline?{urlencode([*pairs, *((name, value) for name, value in changed.items() if value)])}"

    def time(self, since: Instant, until: Instant) -> str:
        """Return the address of another time."""
        return self(**{"within": "", "first_lane": "", "from": format_instant(since), "to": format_instant(until)})


@router.get("/timeline")
def show_timeline(
    request: Request,
    context: Context,
    by: LaneKind = LaneKind.JOB,
    within: Annotated[str, Query(max_length=8)] = "",
    begin: Annotated[str, Query(alias="from", max_length=40)] = "",
    end: Annotated[str, Query(alias="to", max_length=40)] = "",
    job_id: Text = "",
    state: Annotated[list[str] | None, Query()] = None,
    queue: Text = "",
    first_lane: FirstLane = 0,
) -> Response:
    """Draw the runs of a time, of the last hour if none is given."""
    reader, now = Reader(_LABELS), context.clock()
    states = tuple(filter(None, (reader.tried(partial(_state, name)) for name in state or () if name)))
    wanted = RunFilter(
        reader.tried(lambda: _text(job_id, "job_id")), states, reader.tried(lambda: _text(queue, "queue"))
    )
    span = reader.tried(lambda: _span(within, begin, end, now)) or _last(HOUR, now)
    wrong = reader.wrong()
    shown = read_timeline(context.stores.timeline, by, span, wanted, first_lane) if wrong is NOTHING_WRONG else None
    if shown and not shown.lanes and wanted.job_id:  # a job that has not run yet: what is planned
        shown = replace(shown, lanes=[Lane(wanted.job_id, 0, (), ())])
    given = (("by", by.value), ("within", within), ("from", begin), ("to", end), ("job_id", job_id),
             *(("state", name) for name in state or ()), ("queue", queue),
             ("tz", reader_zone().name if reader_zone().named else ""))  # fmt: skip
    address = Address([(name, value) for name, value in given if value])
    values = {} if shown is None else _drawn(context, shown, wanted, address, now)
    follows = not (begin or end) and (shown is None or shown.detail is Detail.RUNS)
    return page(
        request, "timeline.html", wrong=wrong, shown=shown, by=by.value, within=within or ("" if begin else "1h"),
        begin=begin, end=end, job_id=job_id, queue=queue, follows=follows,
        kinds=[(kind.value, name, address(by=kind.value, first_lane="")) for kind, name in _LANES.items()],
        presets=[(name, address(**{"within": name, "from": "", "to": "", "first_lane": ""})) for name in WITHIN],
        states=[(s.value, SHAPES[s], s in states) for s in RunState], moves=_moves(span, address), **values,
    )  # fmt: skip


def _text(text: str, field: str) -> str | None:
    return read_text(text, field) or None


def _state(name: str) -> RunState:
    try:
        return RunState(name)
    except ValueError:
        raise BadValue("state", name, f"known are {', '.join(state.value for state in RunState)}") from None


def _span(within: str, begin: str, end: str, now: Instant) -> Span:
    if not begin and not end:
        if within and within not in WITHIN:
            raise BadValue("from", within, f"give a time, or within as one of {', '.join(WITHIN)}")
        return _last(WITHIN.get(within, HOUR), now)
    until = read_time(end, "to") if end else now
    since = read_time(begin, "from") if begin else until - HOUR
    for field, typed, at in (("from" if begin else "to", begin or end, since), ("to", end, until)):
        if not 0 <= at < _LAST_YEAR:  # the steps in time, and their clocks in any zone, have to be times too
            raise BadValue(field, typed_time(typed), "give a time of the years 1970 to 9998")
    return span_of(since, until, typed_time(end or begin), "to")


def _last(length: Duration, now: Instant) -> Span:
    """Return the time until now and a little of what is to come, in whole steps, so that a picture stands still."""
    step = length // PARTS
    end = -(-now // step) * step + length // 12
    return Span(end - length, end, PARTS)


def _moves(span: Span, address: Address) -> list[tuple[str, str, str]]:
    """Return the names, signs and addresses of the steps in time."""
    length, middle = span.until - span.since, (span.since + span.until) // 2
    near, far = max(SHORTEST, length // 2), min(LONGEST, 2 * length)
    steps = (
        ("Earlier", "←", span.since - length // 2, span.until - length // 2),
        ("Zoom in", "+", middle - near // 2, middle - near // 2 + near),
        ("Zoom out", "−", middle - far // 2, middle - far // 2 + far),
        ("Later", "→", span.since + length // 2, span.until + length // 2),
    )
    return [(name, sign, address.time(begin, end)) for name, sign, begin, end in steps if begin >= 0]


def _drawn(context: ApiContext, shown: Timeline, wanted: RunFilter, address: Address, now: Instant) -> dict[str, Any]:
    span, shown_in = shown.span, zone(reader_zone().name)
    links = Links(
        lambda run_id: f"/runs/{quote(run_id, safe='')}", lambda job_id: f"/jobs/{quote(job_id, safe='')}", address.time
    )
    planned: Mapping[str, Sequence[Instant]] = {}
    if shown.by is LaneKind.JOB and span.until > now:
        names = [lane.name for lane in shown.lanes if lane.name]
        planned = planned_runs(context.stores.jobs, names, max(now, span.since - 1), span.until)
    following = shown.following
    return {
        "ticks": ticks(span, shown_in), "lanes": lane_charts(shown, shown_in, now, links, planned), "span": span,
        "since": format_instant(span.since), "until": format_instant(span.until),
        "now_at": place(span, now) if span.since <= now < span.until else None, "detail": shown.detail.value,
        "bands": bands_of(context, span, now, wanted.queue), "nobody": _NOBODY.get(shown.by, ""), "most": LANES,
        "seconds": max(1, (span.until - span.since) // SECOND), "lane_link": _lane_links(shown.by),
        "before": address(first_lane=str(max(0, shown.first - LANES))) if shown.first else None,
        "following": None if following is None else address(first_lane=str(following)),
    }  # fmt: skip


def _lane_links(by: LaneKind) -> str:
    return {LaneKind.JOB: "/jobs/", LaneKind.QUEUE: "/runs?queue="}.get(by, "")
