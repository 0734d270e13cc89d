"""The scheduler's present state for pages: the lease, the leader's figures if it answers, and alerts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from itinerary.protocol.errors import BrokerUnavailable
from itinerary.protocol.instants import SECOND, Instant, parse_instant
from scheduler_service.api.context import ApiContext
from scheduler_service.api.pages.failure_groups import Group
from scheduler_service.api.pages.moments import Moment, length, moment
from scheduler_service.api.services.same_redis import other_redis
from scheduler_service.api.services.who_leads import ask_holder
from scheduler_service.core.redis_marks import SAME_REDIS
from scheduler_service.core.worker_command import worker_command
from scheduler_service.ports.leases import LeaseView

_LATE_AFTER: Final = 5 * SECOND
_QUEUES: Final = 5
_NAMED: Final = 3
TROUBLES: Final = 1000
"""Upper bound of failed or missed runs that a page counts; beyond it, it shows "or more"."""


@dataclass(frozen=True, slots=True)
class Lag:
    """A queue, how long its longest waiting run is overdue, and whether a living worker listens."""

    queue: str
    behind: int
    pending: int
    served: bool


@dataclass(frozen=True, slots=True)
class Live:
    """The state; `lease` None: nobody has ever led. `figures` empty: no leader answers.

    `inbox` None: Redis does not answer. `other` is set if this API's Redis is not the leader's.
    """

    lease: LeaseView | None
    figures: Mapping[str, Any]
    inbox: int | None
    other: str | None = None

    @property
    def has_leader(self) -> bool:
        """Whether somebody leads, by the database."""
        return self.lease is not None and self.lease.live

    @property
    def workers(self) -> Sequence[Mapping[str, Any]]:
        """Return the workers that the leader knows."""
        found: Sequence[Mapping[str, Any]] = self.figures.get("workers", ())
        return found

    @property
    def queues(self) -> Sequence[Mapping[str, Any]]:
        """Return the queues that have workers or pending runs."""
        found: Sequence[Mapping[str, Any]] = self.figures.get("queues", ())
        return found

    def since(self, now: Instant) -> Moment | None:
        """Return the start of the leadership."""
        return moment(self.lease.acquired_at, now) if self.lease is not None and self.lease.live else None

    def last_seen(self, now: Instant) -> Moment | None:
        """Return when the last leader renewed its lease or gave it up; None if nobody has ever led."""
        return None if self.lease is None else moment(self.lease.last_seen_at, now)

    def lags(self, now: Instant) -> list[Lag]:
        """Return how far each queue with overdue runs is behind, the furthest first."""
        late = ((queue, queue.get("oldest_due_at")) for queue in self.queues)
        found = [
            Lag(str(queue["name"]), max(0, now - parse_instant(since)), queue["pending"], bool(queue["workers"]))
            for queue, since in late
            if since is not None
        ]
        return sorted(found, key=lambda lag: lag.behind, reverse=True)


@dataclass(frozen=True, slots=True)
class Issue:
    """A problem in one sentence, the page to go to with the word for it, and the group of failures to retry."""

    message: str
    link: str | None = None
    label: str = "Show"
    retry: Group | None = None


def read_live(context: ApiContext) -> Live:
    """Query the database, the leader and Redis, once each."""
    lease, figures = ask_holder(context.stores.leases, context.leader)
    inbox: int | None
    other: str | None
    try:
        inbox = context.stores.inbox.depth()
        other = other_redis(context, lease)
    except BrokerUnavailable:
        inbox, other = None, None
    return Live(lease, figures or {}, inbox, other)


def issues(live: Live, now: Instant, jobs_in: Callable[[str], Sequence[str]] = lambda queue: ()) -> Iterator[Issue]:
    """List the problems of scheduler, workers and queues, the gravest first; `jobs_in` names those of a queue."""
    yield from _of_parts(live, now)
    if any(worker["alive"] for worker in live.workers):  # otherwise that is the one cause, already listed
        yield from _orphans(live, now, jobs_in)
    late = [lag for lag in live.lags(now) if lag.served and lag.behind > _LATE_AFTER]
    for lag in late[:_QUEUES]:
        yield Issue(
            f"In queue {lag.queue} a run has been due for {length(lag.behind)} and has not started.",
            _page_of(lag.queue),
            "Open the queue",
        )
    if len(late) > _QUEUES:
        yield Issue(f"{len(late) - _QUEUES} more queues are behind.", "/workers")


def _orphans(live: Live, now: Instant, jobs_in: Callable[[str], Sequence[str]]) -> Iterator[Issue]:
    """Name each queue with waiting runs and without a living worker, once."""
    waited = {lag.queue: lag.behind for lag in live.lags(now)}
    orphans = [queue for queue in live.queues if not queue["workers"] and (queue["pending"] or queue["name"] in waited)]
    for queue in orphans[:_QUEUES]:
        name, count = queue["name"], queue["pending"]
        runs = f"{count} {_runs(count)} {'waits' if count == 1 else 'wait'}" if count else "A run waits"
        since = f", the oldest for {length(waited[name])}" if name in waited else ""
        jobs = jobs_in(name)
        of = f" ({', '.join(jobs[:_NAMED])}{' and others' if len(jobs) > _NAMED else ''})" if jobs else ""
        yield Issue(
            f"{runs} in queue {name}{of}{since}, and no living worker listens there: start one with "
            f"{worker_command(name)}.",
            _page_of(name),
            "Open the queue",
        )
    if len(orphans) > _QUEUES:
        yield Issue(f"{len(orphans) - _QUEUES} more queues have runs that wait and no living worker.", "/workers")


def _of_parts(live: Live, now: Instant) -> Iterator[Issue]:
    if live.inbox is None:
        yield Issue("Redis does not answer: no run can be dispatched.")
    last_seen = live.last_seen(now)
    if last_seen is None:
        yield Issue("Nobody leads, and nobody ever did: start a leader with itinerary leader.")
    elif not live.has_leader:
        yield Issue(f"Nobody leads; the last leader was seen {last_seen.text}: start one with itinerary leader.")
    elif live.other is not None:
        yield Issue(f"This API uses {live.other} than the leader: {SAME_REDIS}.")
    elif live.lease is not None and live.lease.without_redis:
        yield Issue("The leader cannot reach Redis or its broker, and dispatches nothing.")
    elif not live.figures:
        yield Issue(f"The leader does not answer within a second; it was last seen {last_seen.text}.")
    elif not any(worker["alive"] for worker in live.workers):
        yield Issue(
            f"No worker sends heartbeats: start one with {worker_command()}, or give the workers the Redis of "
            "the leader.",
            "/workers",
        )


def _page_of(queue: str) -> str:
    return f"/queues/{quote(queue, safe='')}"


def _runs(count: int) -> str:
    return "run" if count == 1 else "runs"
