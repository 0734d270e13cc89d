"""Times of the whole axis, above the lanes of the timeline: without a leader, frozen, paused, missed. Changes nothing.

Promises that it reads at most a hundred rows of each kind, the newest, and of what is stored only what the caller may
see.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from itinerary.protocol.instants import Instant, parse_instant
from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.pages.time_axis import place
from scheduler_service.api.services.who_leads import absences
from scheduler_service.ports.records import AuditFilter
from scheduler_service.ports.timeline import Span

_MOST: Final = 100


@dataclass(frozen=True, slots=True)
class Band:
    """A time of the axis in percent of its width, with its text and the page that tells more."""

    x: float
    width: float
    text: str
    link: str


@dataclass(frozen=True, slots=True)
class Bands:
    """The bands by name, and those that are drawn behind the lanes too: of all, and of a queue's own lane."""

    lanes: Sequence[tuple[str, str, Sequence[Band]]]
    absences: Sequence[Band]
    of_queue: Mapping[str, Sequence[Band]]


@dataclass(slots=True)
class _Found:
    """A time of one kind, open while it has no end."""

    since: Instant
    until: Instant | None
    text: str
    link: str
    queue: str = field(default="")


def bands_of(context: ApiContext, span: Span, now: Instant, queue: str | None = None) -> Bands:
    """Return what held during the span; of the pauses only those of the queue, if one is named."""
    nobody = _drawn(_absences(context, now), span)
    frozen, missed = _drawn(_freezes(context), span), _drawn(_missed(context, span), span)
    pauses = [one for one in _pauses(context) if queue in (None, one.queue)]
    named = (
        ("No leader", "unled", nobody), ("Frozen", "frozen", frozen), ("Paused", "paused", _drawn(pauses, span)),
        ("Missed", "missed", missed),
    )  # fmt: skip
    queues = {one.queue for one in pauses}
    own = {name: _drawn((one for one in pauses if one.queue == name), span) for name in queues}
    return Bands([lane for lane in named if lane[2]], nobody, own)


def _drawn(found: Iterator[_Found] | Sequence[_Found], span: Span) -> list[Band]:
    within = ((one, span.until if one.until is None else one.until) for one in found)
    return [
        Band(x, max(0.2, round(place(span, end) - x, 3)), one.text, one.link)
        for one, end in within
        if one.since < span.until and end > span.since
        for x in [place(span, one.since)]
    ]


def _absences(context: ApiContext, now: Instant) -> Iterator[_Found]:
    for begin, end, after in absences(context.stores.samples.terms(0, _MOST)):
        yield _Found(begin, end, f"Nobody led until term {after} began", "/failures?within=7d")
    lease = context.stores.leases.peek(0)
    if lease is not None and not lease.live:
        yield _Found(lease.last_seen_at, now, "Nobody leads", "/")


def _freezes(context: ApiContext) -> Iterator[_Found]:
    try:
        freezes = context.stores.freeze_store.list(None, _MOST, None).items
    except Problem:  # a limited token does not see what concerns others
        return
    for one in freezes:
        yield _Found(one.since, one.end, f"Freeze {one.name()}", "/freezes")


def _missed(context: ApiContext, span: Span) -> Iterator[_Found]:
    for one in context.stores.history.missed_ranges(span.since, _MOST):
        text = f"{one.job_id}: {one.count:,} missed, {one.reason}"
        yield _Found(one.start, one.end, text, "/failures?within=7d")


def _pauses(context: ApiContext) -> list[_Found]:
    """Return the pauses of queues that the audit log names: each entry tells the pause before and after it."""
    entries = [
        entry
        for action in ("queue.pause", "queue.resume")
        for entry in context.stores.audit.list(AuditFilter(action=action), _MOST, None).items
    ]
    found: dict[tuple[str, str], _Found] = {}
    for entry in sorted(entries, key=lambda entry: entry.id):
        is_over = entry.action == "queue.resume"
        state: dict[str, Any] = (entry.before if is_over else entry.after) or {}
        since, queue = state.get("paused_at"), entry.subject
        if since is None or queue is None:
            continue
        until = None if state.get("paused_until") is None else parse_instant(state["paused_until"])
        end = entry.at if is_over and (until is None or entry.at < until) else until
        text = f"Queue {queue} paused by {state.get('paused_by')}: {state.get('pause_reason')}"
        found[queue, since] = _Found(parse_instant(since), end, text, f"/queues/{quote(queue, safe='')}", queue)
    return list(found.values())
