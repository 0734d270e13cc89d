"""The leader's writes: one thread dispatches runs, another does everything else.

Each thread keeps the loop's order, so that of two messages in a queue the later has the greater number. While the
database is away, both retry as long as the lease is trusted; a row that the database will never take is quarantined.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

import structlog

from itinerary.protocol.errors import RowRefused, StatementTimedOut, StoreUnavailable
from itinerary.protocol.instants import Duration
from scheduler_service.core.balancing.placements import JobsPlaced, PlaceJobs, ReadRebalance, RebalanceRead
from scheduler_service.core.leader.commands import (
    Apply,
    CreateRuns,
    DispatchRuns,
    ReadRuns,
    Redispatch,
    StoreCommand,
)
from scheduler_service.core.leader.job_reads import CalendarJobsRead, ReadCalendarJobs, ReadJobs
from scheduler_service.core.leader.lane_reads import ReadHeads, ReadLanes
from scheduler_service.core.leader.past_starts import PruneStarts, ShiftStarts
from scheduler_service.core.leader.poll_state import (
    ControlsConfirmed,
    ControlsRead,
    DueRead,
    ReadCancels,
    ReadControls,
    ReadDue,
    ReadExpired,
    ReadOverdue,
)
from scheduler_service.core.leader.results import (
    Applied,
    Feedback,
    JobsRead,
    RunsCreated,
    RunsDispatched,
    RunsRead,
    RunsRedispatched,
)
from scheduler_service.loops.command_thread import CommandThread
from scheduler_service.loops.commit_order import CommitOrder
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.loops.mailbox import Mailbox, monotonic
from scheduler_service.loops.placement_log import log_placed
from scheduler_service.loops.write_groups import (
    Answers,
    DispatchCommand,
    Group,
    Polls,
    all_refused,
    are_few,
    grouped,
    hands_over,
    in_growing_parts,
    merged,
    none_dispatched,
)
from scheduler_service.ports.stores import LeaderStore

log = structlog.get_logger(__name__)

_GIVES_WAY = 0.25

# Reads that are repeated by time, or whose asker has gone by then: they must not block the writes behind them.
_GIVEN_UP = (ReadDue, ReadLanes, ReadHeads, ReadOverdue, ReadExpired, ReadCancels, ReadControls, ReadRebalance)


class StoreWriter:
    """The executor of StoreCommands, which reports their results.

    `gives_way`: the database takes one write at a time, so that each group of writes lets dispatches pass first.
    """

    def __init__(
        self,
        store: LeaderStore,
        renewer: LeaseRenewer,
        mailbox: Mailbox,
        stopping: threading.Event,
        on_crash: Callable[[BaseException], None],
        at_once: Callable[[Callable[[Group], Answers], Sequence[Group]], Iterator[Answers]] = map,
        gives_way: bool = False,
    ) -> None:
        self._store = store
        self._renewer = renewer
        self._mailbox = mailbox
        self._stopping = stopping
        self._at_once = at_once
        self._order = CommitOrder()
        self._begun: dict[int, Duration] = {}
        self._gives_way = gives_way
        self._handing = threading.Lock()
        self._polls = Polls()
        self._held: list[tuple[int, DispatchCommand]] = []
        self._writer: CommandThread[StoreCommand] = CommandThread(
            "run-syncer", self.carry_out, on_crash, are_few, self._let_go
        )
        self._dispatcher: CommandThread[DispatchCommand] = CommandThread("run-mover", self.dispatch, on_crash)
        self.threads = (self._writer, self._dispatcher)

    def put(self, *commands: StoreCommand) -> None:
        """Queue the commands of one pass, dispatches that wait for none of them first; only the loop's thread calls."""
        writes = []
        for command in commands:
            if isinstance(command, DispatchCommand):
                self._hand_over(command, self._order.before(command, self._writer.done))
            else:
                self._order.take(command, self._writer.done)
                writes.append(command)
        for command in writes:
            self._writer.put(command)

    def backlog(self) -> int:
        """The number of commands that are queued or being executed."""
        return len(self._held) + self._writer.backlog() + self._dispatcher.backlog()

    def carry_out(self, commands: list[StoreCommand]) -> None:
        """Execute these commands in order and report their results; polls wait while more is queued."""
        self._execute(self._polls.put_off(commands, monotonic()))
        while (poll := self._polls.take(monotonic(), is_idle=not self._writer.has_more())) is not None:
            self._execute([poll])

    def _execute(self, commands: list[StoreCommand]) -> None:
        for group in grouped(merged(commands)):
            if self._gives_way:
                self._dispatcher.wait_until_done(self._dispatcher.handed, _GIVES_WAY)
            self._put_answers(self._until_done(group))

    def dispatch(self, commands: Sequence[DispatchCommand]) -> None:
        """Dispatch these runs and report in order, the first ones early if many are due at once."""
        for answers in self._at_once(self._until_done, [[command] for command in in_growing_parts(commands)]):
            self._put_answers(answers)

    def _hand_over(self, command: DispatchCommand, number: int) -> None:
        """Dispatch once the first `number` writes are done; those of the same queue keep their order."""
        self._let_go()
        with self._handing:
            if number > self._writer.done:
                self._held.append((number, command))
            else:
                self._dispatcher.put(command)

    def _let_go(self) -> None:
        """Hand over the dispatches whose writes are done."""
        with self._handing:
            done, held = self._writer.done, self._held
            self._held = [order for order in held if order[0] > done]
            for number, command in held:
                if number <= done:
                    self._dispatcher.put(command)

    def _put_answers(self, answers: Answers) -> None:
        for answer in answers:
            self._mailbox.put(answer)
            self._log(answer)  # the loop need not wait for the line

    def stuck_for(self) -> Duration:
        """How long the oldest unfinished group has been tried."""
        return max((monotonic() - begun for begun in list(self._begun.values())), default=0)

    def _until_done(self, group: Group) -> Answers:
        me = threading.get_ident()
        self._begun[me] = monotonic()
        try:
            return self._tried(group)
        finally:
            self._begun.pop(me, None)

    def _tried(self, group: Group) -> Answers:
        delay = 0.05
        while True:
            self._renewer.check()
            try:
                return self._do(group)
            except RowRefused as exc:
                if len(group) == 1 and (write := hands_over(group[0])) is not None:
                    # The write by itself takes each row that the database takes.
                    return [*map(none_dispatched, write.then), *self._until_done([replace(write, then=())])]
                if len(group) == 1:
                    log.error("row set aside", effect=type(group[0]).__name__, error=str(exc))
                    return all_refused(group[0])
                return [answer for command in group for answer in self._until_done([command])]
            except StoreUnavailable as exc:
                if self._gives_up(group[0], exc):
                    return []
            if self._stopping.wait(delay):
                time.sleep(delay)  # while stopping it retries until the lease ends, but not without a pause
            delay = min(delay * 2, 1.0)

    @staticmethod
    def _gives_up(command: StoreCommand, exc: StoreUnavailable) -> bool:
        name, too_slow = type(command).__name__, isinstance(exc, StatementTimedOut)
        if too_slow and isinstance(command, _GIVEN_UP):
            log.error("read given up: the database takes too long for it", effect=name, error=str(exc))
        elif too_slow:
            log.error("the database takes too long for it, trying again", effect=name, error=str(exc))
        else:
            log.warning("database away, trying again", effect=name, error=str(exc))
        return too_slow and isinstance(command, _GIVEN_UP)

    def _do(self, group: Group) -> Answers:
        if len(group) == 1 and hands_over(group[0]) is None:
            answers = [self._done(group[0])]
        else:
            dispatches = any(map(hands_over, group))
            with self._store.together(self._renewer.lease, by_controls=dispatches):
                answers = [answer for command in group for answer in self._done_with_dispatches(command)]
        return [answer for answer in answers if answer is not None]

    def _done_with_dispatches(self, command: StoreCommand) -> list[Feedback | None]:
        """Execute the command and what is dispatched with it; the loop needs the answers to that first."""
        done = self._done(command)
        if (write := hands_over(command)) is None:
            return [done]
        is_whole = isinstance(done, Applied) and not done.refused
        return [*map(self._done if is_whole else none_dispatched, write.then), done]

    def _log(self, answer: Feedback) -> None:
        term = self._renewer.lease.term
        match answer:
            case RunsDispatched(dispatched=dispatched, refused=refused):
                log.info("runs released", count=len(dispatched), refused=len(refused), term=term)
            case RunsRedispatched(dispatched=dispatched, cause=cause):
                log.info("runs republished", count=len(dispatched), cause=cause, term=term)
            case JobsPlaced():
                log_placed(answer)

    def _done(self, command: StoreCommand) -> Feedback | None:
        """Execute the command; return its result if the loop needs it."""
        store, lease = self._store, self._renewer.lease
        match command:
            case CreateRuns():
                existing = store.create_runs(lease, command)
                planned = len(command.planned)
                return RunsCreated(existing, planned) if existing or planned else None
            case DispatchRuns(dispatches=dispatches, control=control, until=until):
                now = self._renewer.now()
                if until is not None and now >= until:  # a freeze has begun since they were chosen
                    return RunsDispatched((), tuple(one.run_id for one in dispatches), outdated=True)
                answer = store.dispatch_runs(lease, dispatches, now, control)
                return RunsDispatched(answer.dispatched, answer.refused, answer.outdated)
            case Redispatch(dispatches=dispatches, cause=cause):
                renewed = store.redispatch_runs(lease, dispatches)
                return RunsRedispatched(renewed.dispatched, renewed.refused, cause)
            case Apply():
                return Applied(command, store.apply(lease, command))
            case ReadRuns(run_ids=run_ids):
                return RunsRead(run_ids, tuple(store.read_runs(run_ids)))
            case ReadDue(until=until, limit=limit, paused=paused):
                due = tuple(store.due_runs(until, limit, paused))
                found = Counter(run.queue for run in due)
                return DueRead(due, frozenset(queue for queue, number in found.items() if number >= limit))
            case ReadLanes(queue=queue, first=first, limit=limit):
                return store.waiting_lanes(queue, first, limit)
            case ReadHeads(until=until, pages=pages, limit=limit):
                return store.lane_heads(until, pages, limit)
            case ReadOverdue(until=until, limit=limit, after=after):
                overdue = store.overdue_runs(until, limit, after)
                return overdue if overdue.runs else None
            case ReadExpired(until=until, limit=limit, after=after):
                expired = store.expired_runs(until, limit, after)
                return expired if expired.runs else None
            case ReadCancels(limit=limit, after=after):
                requests = store.cancel_requests(limit, after)
                return requests if requests.runs else None
            case ReadControls(known=known, since=since, confirm=confirm):
                if (controls := store.controls(known, since)) is not None:
                    return ControlsRead(controls)
                at = store.unchanged_at(known) if confirm else None
                return None if at is None else ControlsConfirmed(known, at)
            case ReadJobs(job_ids=job_ids, since=since):
                return JobsRead(tuple(store.histories_of(job_ids, since)))
            case ReadCalendarJobs(calendar_id=calendar_id, after=after, since=since, limit=limit):
                histories, following = store.calendar_jobs(calendar_id, after, since, limit)
                return CalendarJobsRead(calendar_id, after, tuple(histories), following)
            case PruneStarts(kept=kept, now=now):
                return store.prune_starts(lease, dict(kept), now)
            case ShiftStarts(by=by):
                store.shift_starts(lease, by)
                return None
            case PlaceJobs():
                return JobsPlaced(command, store.place_jobs(lease, command))
            case ReadRebalance(asked=asked):
                return RebalanceRead(asked, store.last_rebalance())
            case _:
                assert_never(command)
