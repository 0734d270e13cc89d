"""The parts that every route works with, built once and handed down."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from fastapi import Depends, Request

from itinerary.protocol.errors import NotFound
from itinerary.protocol.instants import Instant
from scheduler_service.api.http.logins import FailedLogins
from scheduler_service.api.http.problems import unavailable
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.api.services.limit_figures import LimitFigures
from scheduler_service.api.services.limited_reads import LimitedLeader, limited_stores, sees_run
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.config.settings import Settings
from scheduler_service.core.audit import Caller
from scheduler_service.core.calendars.model import Compiled


def system_clock() -> Instant:
    """This machine's time; what must be exact asks the database instead."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class ApiContext:
    """The parts of one API process."""

    settings: Settings
    stores: Stores
    leader: LeaderLine
    clock: Callable[[], Instant]
    logins: FailedLogins = field(default_factory=FailedLogins)
    limit_figures: LimitFigures = field(default_factory=LimitFigures)

    def ask_leader(self, what: str) -> Mapping[str, Any]:
        """Return the leader's answer; Problem 503 at once if nobody leads, after a second if it does not answer."""
        self.require_leader()
        return self.leader.ask(what)

    def calendar_sets(self, calendar_ids: Sequence[str]) -> dict[str, Compiled]:
        """Return the newest sets of these calendars; ids that are not there are left out."""
        sets = {}
        for calendar_id in calendar_ids:
            with suppress(NotFound):
                sets[calendar_id] = self.stores.calendar_store.get(calendar_id).content.compiled
        return sets

    def require_leader(self) -> None:
        """Raise Problem 503 if nobody leads."""
        lease = self.stores.leases.peek(0)
        if lease is None or not lease.live:
            raise unavailable("nobody leads; start a leader with `itinerary leader`", "no-leader")


def _context(request: Request) -> ApiContext:
    """Return the parts as the caller may see them: a limited token gets limited stores only."""
    context: ApiContext = request.app.state.context
    who: Caller | None = getattr(request.state, "caller", None)
    if who is None or who.limits.none:
        return context
    stores = limited_stores(context.stores, who.limits, who)
    return replace(context, stores=stores, leader=LimitedLeader(context.leader, who.limits, sees_run(stores)))


Context = Annotated[ApiContext, Depends(_context)]
