"""Users that begin and end freezes in a simulation, and what a leader did although a freeze held or skipped it."""

import random
from typing import TYPE_CHECKING, Final

from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.freezes import FREEZE_SKIPS, During, Freeze, NewFreeze, Scope, holding, skipping
from scheduler_service.core.model import DispatchedRun, RunKind
from scheduler_service.core.run_state import RunState
from scheduler_service.core.schedules.jitter import jitter_of
from scheduler_service.core.schedules.schedule import occurrences

if TYPE_CHECKING:
    from tests.support.simulation import Simulation

_BY: Final = AuditedChange("user", "operator", "freeze.start")
_SCOPES: Final = (
    Scope(everything=True), Scope(queues=frozenset({"default"})), Scope(jobs=frozenset({"j0"})),
    Scope(tags=frozenset({"even"})),
)  # fmt: skip


class Freezes:
    """Freezes of every scope, in half of the histories; `unheeded`: what was dispatched within one."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        # Of its own, so that a seed is otherwise the history that it was.
        self._dice = random.Random(f"freezes of {simulation.seed}")
        self.unheeded: list[str] = []

    def begin(self, length: Duration) -> None:
        if self._dice.random() < 0.5:
            for _ in range(self._dice.randint(1, 4)):
                self._simulation.push(self._simulation.t + self._dice.randrange(length), self._freeze)

    def end(self) -> None:
        """No freeze holds any more."""
        for freeze_id in list(self._simulation.store.tables.freezes):
            self._simulation.store.freezes.end(freeze_id, by=_BY)

    def dispatched(self, runs: tuple[DispatchedRun, ...], now: Instant) -> None:
        """Judge a dispatch at its commit, by the time at which it was chosen."""
        for run in runs:
            held = holding(self._meeting(run.queue, run.job_id), now)
            if held and not self._simulation.store.tables.runs[run.run_id].forced:
                self.unheeded.append(f"{run.run_id} within freeze {held[0].freeze_id}")

    def wrongly_judged(self) -> list[str]:
        """Occurrences that started although a freeze skipped them, and those that were skipped without one."""
        if self._simulation.steps:
            return []  # a freeze that began at a time of one clock ends at one of another
        return [*self._started(), *self._skipped()]

    def _started(self) -> list[str]:
        wrong = []
        for run_id, attempt in self._simulation.log:
            row = self._simulation.store.tables.runs.get(run_id)
            if row is None or row.kind is not RunKind.OCCURRENCE or attempt != 1:
                continue
            freezes = self._skipping(row.queue, row.job_id or "", row.scheduled_at)
            if None not in freezes:
                wrong.append(f"{run_id} started, though a freeze skips it")
        return wrong

    def _skipped(self) -> list[str]:
        tables, wrong = self._simulation.store.tables, []
        for row in tables.runs.values():
            if row.state is RunState.SKIPPED and (row.reason or "").startswith(FREEZE_SKIPS):
                freezes = self._skipping(row.queue, row.job_id or "", row.scheduled_at)
                if row.reason not in {one.skipped() for one in freezes if one is not None}:
                    wrong.append(f"{row.run_id}: {row.reason}")
        for missed in tables.missed_ranges:
            if missed.reason.startswith(FREEZE_SKIPS):
                jobs = tables.jobs[missed.job_id].versions
                fires = {at for job in jobs for at in occurrences(job.schedule, missed.start, missed.end)}
                found = [self._skipping(jobs[-1].queue, missed.job_id, at) for at in fires]
                named = [{one.skipped() for one in freezes if one is not None} for freezes in found]
                if sum(missed.reason in reasons for reasons in named) < missed.count:
                    wrong.append(f"{missed.job_id}: {missed.count} of {len(fires)} {missed.reason}")
        return wrong

    def _skipping(self, queue: str, job_id: str, at: Instant) -> set[Freeze | None]:
        """The freezes that skip the occurrence, under each version of its job."""
        versions = self._simulation.store.tables.jobs[job_id].versions
        jitters = {jitter_of(job_id, at, job.jitter) for job in versions}
        return {skipping(self._meeting(queue, job_id), at + jitter) for jitter in jitters}

    def _meeting(self, queue: str, job_id: str | None) -> list[Freeze]:
        job = self._simulation.store.tables.jobs.get(job_id or "")
        tags = () if job is None else job.current.tags
        known = self._simulation.store.tables.freezes.values()
        return [one for one in known if one.scope.meets(queue, job_id, tags)]

    def _freeze(self) -> None:
        dice, simulation = self._dice, self._simulation
        now = simulation.database_now()
        since = now + dice.randrange(5 * SECOND) if dice.random() < 0.3 else None
        until = (since or now) + dice.randrange(1, 12 * SECOND) if dice.random() < 0.5 else None
        during = dice.choice((During.HOLD, During.SKIP))
        asked = NewFreeze(dice.choice(_SCOPES), "trouble", during, since, until)
        ends = simulation.t + dice.randrange(10 * SECOND)
        if simulation.database_away:
            return
        freeze = simulation.store.freezes.start(asked, by=_BY)
        simulation.note(f"user: {freeze}")
        self._tell()
        simulation.push(ends, lambda: self._end(freeze.freeze_id))

    def _end(self, freeze_id: int) -> None:
        if not self._simulation.database_away:
            freeze = self._simulation.store.freezes.end(freeze_id, by=_BY)
            self._simulation.note(f"user: ended {freeze}")
            self._tell()

    def _tell(self) -> None:
        if self._dice.random() >= 0.3:
            self._simulation.send("control_changed", {})
