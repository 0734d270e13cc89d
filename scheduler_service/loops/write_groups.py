"""The grouping of the leader's writes into transactions. Owns their order; executes nothing."""

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from itinerary.protocol.instants import SECOND, Duration, Instant
from scheduler_service.core.leader.commands import (
    Apply,
    CreateRuns,
    DispatchRuns,
    Redispatch,
    StoreCommand,
)
from scheduler_service.core.leader.edits import MOST_ROWS
from scheduler_service.core.leader.poll_state import ReadCancels, ReadExpired, ReadOverdue
from scheduler_service.core.leader.results import Applied, Feedback, RunsDispatched, RunsRedispatched

_MOST_TRANSITIONS = 2000
_SHARING = (CreateRuns, Apply)
_POLLS = (ReadCancels, ReadOverdue, ReadExpired)
_POLLS_WITHIN = 2 * SECOND
_SHARED_FROM, _SHARED_TO = 50, 1_000
_FEW = 100

_FIRST_MOVES, _MOST_MOVES = 250, 500

DispatchCommand = DispatchRuns | Redispatch
Group = list[StoreCommand]
Answers = list[Feedback]


def are_few(commands: list[StoreCommand]) -> bool:
    """Whether these are few reports, which can wait for more: a transaction costs the same for one as for many.

    Not if runs wait for what they free.
    """
    reports = [command for command in commands if isinstance(command, Apply) and not command.awaited]
    return len(reports) == len(commands) and sum(len(one.transitions) for one in reports) < _FEW


class Polls:
    """Commands that are only repeated by time: they are put off while others are queued, two seconds at most."""

    def __init__(self) -> None:
        self._put_off: deque[tuple[Duration, StoreCommand]] = deque()

    def put_off(self, commands: Sequence[StoreCommand], now: Duration) -> list[StoreCommand]:
        """Keep the polls among these; return the others."""
        self._put_off.extend((now, command) for command in commands if isinstance(command, _POLLS))
        return [command for command in commands if not isinstance(command, _POLLS)]

    def take(self, now: Duration, *, is_idle: bool) -> StoreCommand | None:
        """Take the oldest poll out if nothing else is to be done, or it has waited for long; None if there is none."""
        if self._put_off and (is_idle or now - self._put_off[0][0] >= _POLLS_WITHIN):
            return self._put_off.popleft()[1]
        return None


def grouped(commands: list[StoreCommand]) -> list[Group]:
    """Group neighbouring writes of many rows, as far as one transaction should hold; all others stay alone.

    Small batches commit alone, so their result is reported sooner.
    """
    groups: list[Group] = []
    for may_share, run in groupby(commands, lambda command: isinstance(command, _SHARING)):
        neighbours = list(run)
        if not may_share or sum(map(_rows, neighbours)) < _SHARED_FROM:
            groups += [[command] for command in neighbours]
            continue
        groups.append([])
        for command in neighbours:
            if groups[-1] and not _may_join(groups[-1], command):
                groups.append([])
            groups[-1].append(command)
    return groups


def _may_join(group: Group, command: StoreCommand) -> bool:
    if sum(map(_rows, group)) + _rows(command) > _SHARED_TO:
        return False
    # Jobs must be locked in the order of their ids, as everywhere; two edits in one transaction would mix that order.
    if _edits(command) and any(map(_edits, group)):
        return False
    # If a lost answer made us repeat both in one transaction, a row would be created and coalesced again, and counted
    # twice.
    coalesces = isinstance(command, Apply) and any(change.coalesce is not None for change in command.transitions)
    return not (coalesces and any(isinstance(one, CreateRuns) for one in group))


def hands_over(command: StoreCommand) -> Apply | None:
    """The command, if it dispatches runs in the transaction that writes the ends of others."""
    return command if isinstance(command, Apply) and command.then else None


def none_dispatched(order: DispatchRuns) -> RunsDispatched:
    """The answer that none of these was dispatched: their rows are read, and they wait for another pass."""
    return RunsDispatched((), tuple(one.run_id for one in order.dispatches))


def all_refused(command: StoreCommand) -> Answers:
    """The answer to a command that the database will never take: its runs are read, and nothing waits for it."""
    match command:
        case DispatchRuns():
            return [none_dispatched(command)]
        case Redispatch(dispatches=dispatches, cause=cause):
            return [RunsRedispatched((), tuple(one.run_id for one in dispatches), cause)]
        case Apply(transitions=transitions):
            return [Applied(Apply(transitions), tuple(one.run_id for one in transitions))]
        case _:
            return []


def _edits(command: StoreCommand) -> bool:
    return isinstance(command, CreateRuns) and bool(command.planned)


def _edit_rows(command: CreateRuns) -> int:
    return len(command.runs) + len(command.planned)


def _rows(command: Any) -> int:
    return len(command.runs) if isinstance(command, CreateRuns) else len(command.transitions)


def merged(commands: list[StoreCommand]) -> list[StoreCommand]:
    """Merge neighbouring Applies and edits, for fewer transactions with the same meaning."""
    out: list[StoreCommand] = []
    for command in commands:
        match out[-1] if out else None, command:
            case Apply() as last, Apply() if len(last.transitions) + len(command.transitions) <= _MOST_TRANSITIONS:
                out[-1] = Apply(
                    last.transitions + command.transitions,
                    last.published + command.published,
                    last.late + command.late,
                    last.cancels + command.cancels,
                    command.position or last.position,
                    command.judged_until if command.judged_until is not None else last.judged_until,
                    last.awaited or command.awaited,
                    last.then + command.then,
                )
            case CreateRuns() as last, CreateRuns() if _may_be_one(last, command):
                out[-1] = CreateRuns(
                    last.runs + command.runs,
                    command.cursor,
                    last.retracts + command.retracts,
                    last.missed_ranges + command.missed_ranges,
                    last.planned + command.planned,
                    control=last.control,
                )
            case _:
                out.append(command)
    return out


def _may_be_one(first: CreateRuns, second: CreateRuns) -> bool:
    """Whether both plan edits, of different jobs: an edit retracts what an earlier edit of its job created."""
    if not (first.planned and second.planned) or first.set_back or second.set_back:
        return False
    both = [job_id for job_id, _ in (*first.planned, *second.planned)]
    return len(set(both)) == len(both) and _edit_rows(first) + _edit_rows(second) <= MOST_ROWS


def in_growing_parts(commands: Sequence[DispatchCommand]) -> list[DispatchCommand]:
    """Split the dispatches into transactions that are small at first, so that the first messages go early."""
    parts: list[DispatchCommand] = []
    for chosen_by, neighbours in groupby(commands, _chosen_by):
        if chosen_by is None:
            parts += neighbours
            continue
        dispatches = [dispatch for command in neighbours for dispatch in command.dispatches]
        at = 0
        while at < len(dispatches):
            size = min(_FIRST_MOVES << len(parts) // 2, _MOST_MOVES)  # two are executed at a time
            parts.append(DispatchRuns(tuple(dispatches[at : at + size]), "", *chosen_by))
            at += size
    return parts


def _chosen_by(command: DispatchCommand) -> tuple[int, Instant | None] | None:
    return None if isinstance(command, Redispatch) else (command.control, command.until)
