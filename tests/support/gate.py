"""The gate of a leader without any I/O: a test says what waits, what workers say and what the database answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from itinerary.protocol.instants import SECOND, Duration, Instant, parse_instant
from itinerary.protocol.limits import LimitUse, lane_of
from scheduler_service.core.controls import Controls, QueuePause
from scheduler_service.core.leader.commands import Apply, Command, Dispatch, DispatchRuns, ReadRuns, RecallClaims
from scheduler_service.core.leader.iteration import iterate, next_wake
from scheduler_service.core.leader.messages import Heartbeat, InboxMessage, Started, Succeeded
from scheduler_service.core.leader.poll_state import ControlsRead, DueRead, Listened
from scheduler_service.core.leader.results import Applied, Feedback, InboxRead, Published, RunsDispatched, RunsRead
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.leader.taking_over import take_over
from scheduler_service.core.limits import Bounds, Limit
from scheduler_service.core.model import ActiveRun, Cursor, DispatchedRun, RunKind
from scheduler_service.core.run_state import RunState

T0: Final = parse_instant("2026-11-30T10:00:00Z")
Limits = Sequence[str | tuple[str, str]]


def waiting(run_id: str, *limits: str | tuple[str, str], queue: str = "q", **more: object) -> ActiveRun:
    """A run that is due; a limit with a key is a pair."""
    uses = tuple(LimitUse(one) if isinstance(one, str) else LimitUse(*one) for one in limits)
    fair_key = more.pop("fair_key", None)
    assert fair_key is None or isinstance(fair_key, str)
    run = ActiveRun(run_id, RunKind.ADHOC, None, None, queue, 5, T0, T0, RunState.SCHEDULED)
    return run._replace(limits=uses, lane=lane_of(uses, fair_key), **more)


def limit(concurrency: int, *, overrides: Mapping[str, int] | None = None) -> Limit:
    """A limit of so many in flight; its name is given by `Gate.edit`."""
    own = {key: Bounds(number) for key, number in (overrides or {}).items()}
    return Limit("", Bounds(concurrency), per_key=bool(own), overrides=own)


def handed_over(write: Apply) -> list[Dispatch]:
    """What is dispatched in the transaction of this write."""
    return [one for order in write.then for one in order.dispatches]


@dataclass
class Gate:
    """One leader. What it chose is answered by `dispatched`, `refused` or not at all."""

    rows: Sequence[ActiveRun] = ()
    settings: CoreSettings = field(default_factory=lambda: CoreSettings(publish_window=10_000))

    def __post_init__(self) -> None:
        self.now: Instant = T0
        self.version = 0
        self.asked: dict[str, tuple[int, int]] = {}
        self.applies: list[Apply] = []
        self.reads: list[str] = []
        self.recalls: list[str] = []
        self.commands: list[Command] = []
        self.known = {row.run_id: row for row in self.rows}
        self.controls = Controls()
        self.heard_until: Instant | None = None
        self.state, _ = take_over(self.settings, 1, Cursor(T0, "0-0"), (), self.rows, T0)

    def step(self, *messages: Feedback, after: Duration = 0) -> list[str]:
        """One pass; the ids of the runs that it chose."""
        self.now += after
        chosen = []
        listened = Listened(T0 - 60 * SECOND, self.heard_until or self.now)
        self.state, self.commands = iterate(self.state, [*messages, listened], self.now)
        for command in self.commands:
            match command:
                case DispatchRuns(dispatches=dispatches):
                    self.asked |= {one.run_id: (one.attempt, one.seq) for one in dispatches}
                    chosen += [one.run_id for one in dispatches]
                case Apply():
                    self.applies.append(command)
                    self.asked |= {one.run_id: (one.attempt, one.seq) for one in handed_over(command)}
                case ReadRuns(run_ids=run_ids):
                    self.reads += run_ids
                case RecallClaims(attempts=attempts):
                    self.recalls += [attempt[0] for attempt in attempts]
        return chosen

    def wakes_at_once(self) -> bool:
        return next_wake(self.state, self.now) <= self.now

    def edit(self, *, pauses: Sequence[str] = (), fair: Sequence[str] = (), **limits: Limit) -> list[str]:
        """These are all limits and pauses from now on; `of_q` is the limit of queue q."""
        self.version += 1
        names = {name: name.replace("of_", "queue:") if name.startswith("of_") else name for name in limits}
        named = {names[name]: replace(one, name=names[name]) for name, one in limits.items()}
        held = {queue: QueuePause("a test", T0, "olga") for queue in pauses}
        self.controls = Controls(self.version, held, named, frozenset(fair))
        return self.step(ControlsRead(self.controls))

    def due(self, *runs: ActiveRun) -> list[str]:
        """The database has these runs, which are due."""
        self.known |= {run.run_id: run for run in runs}
        return self.step(DueRead(runs))

    def beat(self, worker: str = "w", *, queues: str = "q", slots: int = 100, **listed: Sequence[str]) -> list[str]:
        """A worker listens to these queues (each a letter) and lists first attempts that it is `running`."""
        running, received = (tuple((one, 1) for one in listed.get(name, ())) for name in ("running", "received"))
        known = Heartbeat(worker, self.now, running, received, slots, tuple(queues), recalls=True)
        return self.hear(known)

    def hear(self, *messages: InboxMessage) -> list[str]:
        return self.step(InboxRead(messages, "1-0"))

    def dispatched(self, *run_ids: str) -> list[str]:
        """The database has committed these dispatches, and the broker has their messages."""
        runs = tuple(self._dispatched(run_id) for run_id in run_ids)
        chosen = self.step(RunsDispatched(runs, ()))
        return chosen + self.step(Published(runs, self.now))

    def refused(self, *run_ids: str) -> list[str]:
        return self.step(RunsDispatched((), run_ids))

    def row(self, run_id: str, state: RunState, **more: object) -> list[str]:
        """The database answers that the run is so."""
        seq = self.asked.get(run_id, (1, 0))[1]
        return self.step(RunsRead((run_id,), (self.known[run_id]._replace(state=state, seq=seq, **more),)))

    def started(self, *run_ids: str, worker: str = "w") -> list[str]:
        return self.hear(*(Started(run_id, self.asked[run_id][0], worker, self.now) for run_id in run_ids))

    def ended(self, *run_ids: str) -> list[str]:
        """A worker reports that these succeeded; nothing of it is committed."""
        return self.hear(
            *(Succeeded(run_id, self.asked[run_id][0], "w", self.now, self.now, None) for run_id in run_ids)
        )

    def committed(self, *refused: str) -> list[str]:
        """All that the leader wrote so far is committed, but for the transitions of these runs.

        The ids of the runs that were dispatched with it, and of those that the leader chose then.
        """
        applies, self.applies = self.applies, []
        answers: list[Feedback] = []
        dispatched = []
        for one in applies:
            given = [dispatch.run_id for dispatch in handed_over(one)]
            outdated = any(order.control != self.version for order in one.then)
            if outdated or any(change.run_id in refused for change in one.transitions):
                answers.append(RunsDispatched((), tuple(given), outdated))
            else:
                answers.append(RunsDispatched(tuple(map(self._dispatched, given)), ()))
                dispatched += given
            answers.append(Applied(one, refused))
        return dispatched + self.step(*answers)

    def go(self, run_id: str) -> None:
        """The run is dispatched and starts."""
        self.dispatched(run_id)
        self.started(run_id)

    def _dispatched(self, run_id: str) -> DispatchedRun:
        attempt, seq = self.asked[run_id]
        run = self.known[run_id]
        return DispatchedRun(run_id, attempt, seq, 1, None, "t", [], {}, run.queue, run.priority, T0, T0, None)
