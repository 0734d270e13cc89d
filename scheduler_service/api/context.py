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
from scheduler_service.api.services.live_progress import LiveProgress
from scheduler_service.api.services.past_steps import PastSteps
from scheduler_service.api.services.plans import Plans
from scheduler_service.api.services.ran import PastDays
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.config.settings import Settings
from scheduler_service.core.audit import Caller
from scheduler_service.core.calendars.model import Compiled
from scheduler_service.core.model import Run
from scheduler_service.core.run_state import RunState
from scheduler_service.core.token_limits import NO_LIMITS, Limits


def system_clock() -> Instant:
    """This machine's time; what must be exact asks the database instead."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class ApiContext:
    """The parts of one API process; `limits` are the caller's, and part of the name of all that is kept for it."""

    settings: Settings
    stores: Stores
    leader: LeaderLine
    clock: Callable[[], Instant]
    logins: FailedLogins = field(default_factory=FailedLogins)
    limit_figures: LimitFigures = field(default_factory=LimitFigures)
    plans: Plans = field(default_factory=Plans)
    past_days: PastDays = field(default_factory=PastDays)
    past_steps: PastSteps = field(default_factory=PastSteps)
    live_progress: LiveProgress = field(default_factory=LiveProgress)
    limits: Limits = NO_LIMITS

    def ask_leader(self, what: str, subject: str | None = None) -> Mapping[str, Any]:
        """Return the leader's answer; Problem 503 at once if nobody leads, after a second if it does not answer."""
        self.require_leader()
        return self.leader.ask(what, subject)

    def progress_of(self, *runs: Run) -> Mapping[str, Mapping[str, Any]]:
        """Return the progress of those of the runs that run and show one. The caller sees the runs themselves."""
        running = [run.run_id for run in runs if run.state is RunState.RUNNING]
        if len(running) == 1:
            shown = self.live_progress.of(running[0], self.ask_leader)
            return {} if shown is None else {running[0]: shown}
        known = self.live_progress.of_all(self.ask_leader) if running else {}
        return {run_id: known[run_id] for run_id in running if run_id in known}

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
    leader = LimitedLeader(context.leader, who.limits, sees_run(stores))
    return replace(context, stores=stores, leader=leader, limits=who.limits)


Context = Annotated[ApiContext, Depends(_context)]
