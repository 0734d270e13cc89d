"""Trends as pages show them: the plots of a window, the marks on them, and the same as a table.

Promises that a plot has a gap where nobody led, and that what it shows is also there as text. Only shows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, HOUR, MINUTE, Duration, Instant
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.pages.moments import Moment, length, moment
from scheduler_service.api.pages.reader_zone import PARAMETER, reader_zone
from scheduler_service.api.pages.shell import READER, PageRoute
from scheduler_service.api.pages.templating import part
from scheduler_service.api.pages.trend_plots import LETTERS, Drawn, Plot
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Reader, Wrong
from scheduler_service.api.services.trends import Trends, chosen_step, trends
from scheduler_service.core.samples import QueueSample, Sample, delay_quantile, in_steps

WINDOWS: Final = {"1h": HOUR, "6h": 6 * HOUR, "24h": DAY, "7d": 7 * DAY}
CHOSEN: Final = "6h"
_ROWS: Final = {"1h": 5 * MINUTE, "6h": 30 * MINUTE, "24h": 2 * HOUR, "7d": 12 * HOUR}
_MARKS: Final = 20

Window = Annotated[str, Query(max_length=20)]
_LABELS: Final = {"window": "Window of the trends"}

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Row:
    """A step of the table."""

    at: Moment
    ended: str
    failed: str
    delay: str
    lag: str
    pending: str
    workers: str


@dataclass(frozen=True, slots=True)
class ShownMark:
    """A mark, its letter on the plots, and its time."""

    letter: str
    text: str
    link: str | None
    at: Moment


@dataclass(frozen=True, slots=True)
class TrendView:
    """The values of the template; `data` is for the script that draws, `address` gives the newest data again."""

    window: str
    choices: list[tuple[str, str]]
    address: str
    plots: tuple[Plot, ...]
    data: str
    rows: list[Row]
    marks: list[ShownMark]
    more_marks: int
    has_lines: bool


def read_window(text: str) -> str:
    """Read the name of a window; BadValue."""
    if text not in WINDOWS:
        raise BadValue("window", text, f"known are {', '.join(WINDOWS)}")
    return text


@router.get("/parts/trends")
def trends_part(
    request: Request, context: Context, window: Window = CHOSEN, queue: Annotated[str, Query(max_length=128)] = "",
    of_workers: bool = False,
) -> Response:  # fmt: skip
    """Give the newest data of the plots that a page has drawn."""
    return part(
        "_trend_data.html",
        trend=trend_view(request, context, read_window(window), queue or None, of_workers=of_workers),
    )


def shown_trends(
    request: Request, context: ApiContext, window: str, queue: str | None = None, *, of_workers: bool = False
) -> tuple[Wrong, dict[str, Any]]:
    """Return what `_trends.html` shows, and whether the window was refused.

    When the script asks for the page again, the plots stay as they are drawn and fetch their own data.
    """
    if request.headers.get("hx-request"):
        return NOTHING_WRONG, {"trend": None, "trend_kept": True}
    reader = Reader(_LABELS)
    chosen = reader.tried(lambda: read_window(window)) or CHOSEN
    return reader.wrong(), {
        "trend": trend_view(request, context, chosen, queue, of_workers=of_workers),
        "trend_kept": False,
    }


def trend_view(
    request: Request, context: ApiContext, window: str, queue: str | None = None, *, of_workers: bool = False
) -> TrendView | None:
    """Read a window for the page of the request; None for a token that may not see it."""
    now = context.clock()
    try:
        found = trends(context, now - WINDOWS[window], now, chosen_step(WINDOWS[window]))
    except Problem:
        return None
    of: Callable[[Sample], QueueSample] = (
        (lambda sample: sample.total) if queue is None else (lambda sample: sample.queues.get(queue, QueueSample()))
    )
    drawn = Drawn(found, of)
    plots = drawn.of_workers() if of_workers else drawn.of_all() if queue is None else drawn.of_queue()
    marks = [ShownMark(LETTERS[mark.kind], mark.text, mark.link, moment(mark.at, now)) for mark in found.marks[::-1]]
    kept = {name: value for name, value in request.query_params.items() if name == PARAMETER}
    asked = {
        "window": window,
        **kept,
        **({} if queue is None else {"queue": queue}),
        **({"of_workers": "true"} if of_workers else {}),
    }
    return TrendView(
        window, [(name, f"?{urlencode({'window': name, **kept})}") for name in WINDOWS],
        f"/parts/trends?{urlencode(asked)}", plots, drawn.data(plots, found.marks, reader_zone().name),
        _rows(found, of, window, now), marks[:_MARKS], max(0, len(marks) - _MARKS), len(found.samples) > 1,
    )  # fmt: skip


def _rows(found: Trends, of: Callable[[Sample], QueueSample], window: str, now: Instant) -> list[Row]:
    """Return the window as the lines of a table, the newest first."""
    step: Duration = _ROWS[window]
    first, last = found.since - found.since % step, found.until
    # Without the queues, of which a row shows none: to merge fifty takes longer than all else.
    by_step = in_steps((replace(one, total=of(one), queues={}) for one in found.samples.values()), step)
    return [_row(at, by_step.get(at), now) for at in reversed(range(first, last, step))]


def _row(at: Instant, sample: Sample | None, now: Instant) -> Row:
    if sample is None:
        return Row(moment(at, now), "–", "–", "–", "–", "–", "–")
    one, delays = sample.total, [delay_quantile(sample.delays, share) for share in (0.5, 0.99)]
    delay = "–" if delays[0] is None else f"{length(delays[0])}, {length(delays[1])}"
    return Row(
        moment(at, now), f"{one.completed:,}", f"{one.failed + one.missed:,}", delay, str(length(one.lag)),
        f"{one.pending:,}", f"{sample.workers:,}",
    )  # fmt: skip
