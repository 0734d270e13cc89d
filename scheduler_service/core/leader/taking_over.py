"""A takeover: a new leader's state from what was committed, by pauses and limits as they were after it got the lease.

Owns the order: cursor, controls, jobs, runs, then starts of rates. Promises that no run is chosen
and no report applied before all of it is known. Never reads: the loop does, before it asks.
"""

from collections.abc import Iterable

from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.controls import Controls
from scheduler_service.core.leader import placing, rates
from scheduler_service.core.leader.commands import Command, CreateRuns
from scheduler_service.core.leader.edits import take_jobs
from scheduler_service.core.leader.parts.inbox import InboxPosition
from scheduler_service.core.leader.parts.judged import Judged
from scheduler_service.core.leader.parts.numbers import MessageNumbers
from scheduler_service.core.leader.parts.planned import Planned
from scheduler_service.core.leader.past_starts import StoredStarts
from scheduler_service.core.leader.planning import without_unfinished
from scheduler_service.core.leader.rebuilding import want_rebuild
from scheduler_service.core.leader.reconciling import reconcile
from scheduler_service.core.leader.results import JobsRead
from scheduler_service.core.leader.state import CoreSettings, SchedulerState
from scheduler_service.core.leader.step import Step
from scheduler_service.core.model import ActiveRun, Cursor, JobHistory


def take_over(
    settings: CoreSettings,
    term: int,
    cursor: Cursor,
    jobs: Iterable[JobHistory],
    runs: Iterable[ActiveRun],
    now: Instant,
    controls: Controls | None = None,
    starts: StoredStarts | None = None,
    steady: Duration | None = None,
) -> tuple[SchedulerState, list[Command]]:
    """Build a new leader's state from what the last leader committed, and its first commands.

    `controls` were read after the lease was taken (None: nobody has edited any), `starts` after the runs. `steady`:
    this process's steady clock after that; None: `now` is steady.
    """
    planned_until = cursor.materialised_until if cursor.materialised_until is not None else now
    went_back = planned_until > now + settings.lookahead_window
    if went_back:
        # The database's clock was ahead at that write. Rows planned beyond `now` stay; planning restarts from `now`.
        planned_until = now
    judged = Judged.taken_over(min(cursor.judged_until or 0, now))
    inbox = InboxPosition.taken_over(cursor.inbox_position, now)
    numbers = MessageNumbers.of_term(term)
    state = SchedulerState(settings, term, now, Planned(planned_until), judged, inbox, numbers)
    if controls is not None:
        state.calendars.taken_over(controls.version)  # the jobs were read later
        state.controls.put(controls)  # before any report: a start counts for the limits that hold
        state.dispatches.set_fair(controls.fair, state.runs.get)
    state.rates.tick(now if steady is None else steady)
    rates.restore(state, starts or StoredStarts())
    step = Step(now)
    if went_back:
        step.creating.append(CreateRuns((), planned_until, set_back=True))
    found = tuple(runs) if went_back else without_unfinished(step, tuple(runs), planned_until)
    for run in found:
        state.runs.put(run)
    take_jobs(state, step, JobsRead(tuple(jobs)))
    state.jobs.all_are_in_the_next_index()
    placing.follow(state, step, state.jobs)
    for run in found:
        # Edits without a leader retracted some of these runs and replaced others by newer ones.
        if state.runs.get(run.run_id) is run:
            state.runs.drop(run.run_id)
            reconcile(state, step, run)
    want_rebuild(state, step)
    return state, step.finish(state)
