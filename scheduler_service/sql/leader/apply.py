"""Transitions of runs as guarded UPDATEs, many runs per statement.

Promises to apply a run's transitions in their order, each only to its attempt and only from the states that the
transition table names. An attempt that ends in a retry is kept as a row of its own before it is overwritten. Never
interprets a report.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Subquery,
    Text,
    Update,
    and_,
    case,
    func,
    literal_column,
    null,
    or_,
    select,
    update,
)

from itinerary.protocol.instants import Instant
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.leader.commands import CANCELLED_RUNNING, PublishedMark, Transition
from scheduler_service.core.run_state import FINAL, TRANSITIONS, Event, RunState
from scheduler_service.sql.batch import Batch, judged
from scheduler_service.sql.column_types import InstantColumn, Payload, dump_json
from scheduler_service.sql.dialect import Dialect, dialect_of
from scheduler_service.sql.ready import ReadyStatement
from scheduler_service.sql.tables import among, run_attempts, runs

_TRANSITIONS: Final = Batch(
    run_id=Text, attempt=Integer, event=Text, to=Text, at=InstantColumn, reason=Text, due_at=InstantColumn,
    started_at=InstantColumn, worker=Text, result=Payload, error=Payload, args=Payload, kwargs=Payload,
    published_at=InstantColumn, finished_at=InstantColumn, progress=Payload,
)  # fmt: skip
_MARKS: Final = Batch(run_id=Text, attempt=Integer, at=InstantColumn)
# Dictionaries of our own answer four times as fast as the property of an enumeration.
_EVENT_TEXTS: Final = {event: event.value for event in Event}
_STATE_TEXTS: Final = {state: state.value for state in RunState}
_RUNNING: Final = RunState.RUNNING
_OUTCOMES: Final = {
    Event.FAIL: "failed",
    Event.RETRY: "retried",
    Event.LOSE: "lost",
    Event.TIME_OUT: "timed_out",
}


@dataclass(frozen=True, slots=True)
class Applied:
    """Runs with a transition that did not match its guard, the transitions that ended their runs, and what started."""

    refused: set[str]
    ended: list[Transition]
    starts: list[LimitUse] = field(default_factory=list)

    def __or__(self, other: "Applied") -> "Applied":
        return Applied(self.refused | other.refused, self.ended + other.ended, self.starts + other.starts)


def apply_transitions(
    connection: Connection,
    transitions: Sequence[Transition],
    published: Sequence[PublishedMark],
) -> Applied:
    """Apply the transitions, after the published marks.

    A mark of an attempt that has a transition is written in the same UPDATE.
    """
    marks = {(mark.run_id, mark.attempt): mark.at for mark in published}
    named = {(t.run_id, t.attempt) for t in transitions}
    mark_published(connection, [mark for mark in published if (mark.run_id, mark.attempt) not in named])
    applied = Applied(set(), [])
    for turn in _turns(transitions):
        applied |= _apply_turn(connection, turn, marks)
    mark_published(connection, [mark for mark in published if mark.run_id in applied.refused])
    return applied


def mark_published(connection: Connection, marks: Sequence[PublishedMark]) -> None:
    """Note when the broker took these attempts, if they are still the runs' current ones."""
    for chunk in _MARKS.chunks([(mark.run_id, mark.attempt, mark.at) for mark in marks]):
        _MARK_PUBLISHED.count(connection, chunk)


def _turns(transitions: Sequence[Transition]) -> Iterator[list[Transition]]:
    """Yield the first transition of each run, then the second of those that have one, and so on."""
    turns: list[list[Transition]] = []
    seen: dict[str, int] = {}
    for transition in transitions:
        turn = seen.get(transition.run_id, 0)
        seen[transition.run_id] = turn + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(transition)
    return iter(turns)


def _apply_turn(connection: Connection, turn: Sequence[Transition], marks: dict[tuple[str, int], Instant]) -> Applied:
    recalled = [t for t in turn if t.event is Event.RECALL]
    retrying = [t for t in turn if t.to is RunState.RETRYING and t.event is not Event.RECALL]
    others = [t for t in turn if t.to is not RunState.RETRYING and t.event is not Event.RECALL]
    changed: set[str] = set()
    cancelled: set[str] = set()
    for chunk in _TRANSITIONS.chunks(_rows(retrying, marks)):
        # If we die in between, both are rolled back; the first locks the rows for the second.
        connection.execute(_keep_attempts(dialect_of(connection)), chunk)
        changed.update(connection.execute(_retry(dialect_of(connection)), chunk).scalars().all())
    # Not in a later write: the report that ended the attempt is read only once.
    for chunk in _TRANSITIONS.chunks(_rows([_given_up(t) for t in retrying if t.run_id not in changed], marks)):
        cancelled.update(connection.execute(_cancel(dialect_of(connection)), chunk).scalars().all())
    for chunk in _TRANSITIONS.chunks(_rows(recalled, marks)):
        changed.update(connection.execute(_recall(dialect_of(connection)), chunk).scalars().all())
    for chunk in _TRANSITIONS.chunks(_rows(others, marks)):
        changed.update(run_id for (run_id,) in _TRANSITION.rows(connection, chunk))
    ended = [t for t in others if t.to in FINAL and t.run_id in changed]
    # Not those that were refused: a repeated write, whose answer was lost, would count its starts twice.
    starts = [use for t in turn if t.starts and (t.run_id in changed or t.run_id in cancelled) for use in t.starts]
    return Applied({t.run_id for t in turn} - changed, ended, starts)


def _given_up(retry: Transition) -> Transition:
    return retry._replace(to=RunState.CANCELLED, reason=CANCELLED_RUNNING, due_at=None, args=None, kwargs=None)


def _rows(turn: Iterable[Transition], marks: dict[tuple[str, int], Instant]) -> Iterator[tuple[Any, ...]]:
    for t in turn:
        to = t.to
        started_at = t.at if to is _RUNNING and t.started_at is None else t.started_at
        yield (
            t.run_id, t.attempt, _EVENT_TEXTS[t.event], _STATE_TEXTS[to], t.at, t.reason, t.due_at, started_at,
            t.worker, None if t.result is None else dump_json(t.result),
            None if t.error is None else dump_json(t.error), None if t.args is None else dump_json(t.args),
            None if t.kwargs is None else dump_json(t.kwargs),
            marks.get((t.run_id, t.attempt)) if marks else None, t.at if to in FINAL else None,
            None if t.progress is None else dump_json(t.progress),
        )  # fmt: skip


def _guard(batch: Subquery, *more: ColumnElement[bool]) -> ColumnElement[bool]:
    """Match the run, its attempt, and a state from which the transition table allows this event."""
    legal = [
        and_(batch.c.event == literal_column(f"'{event}'"), among(runs.c.state, rule.sources))
        for event, rule in TRANSITIONS.items()
    ]
    as_expected = and_(runs.c.attempt == batch.c.attempt, or_(*legal), *more)
    return and_(runs.c.run_id == batch.c.run_id, judged(batch.c.run_id, as_expected))


def _unless_cancelled(batch: Subquery) -> ColumnElement[bool]:
    return _guard(batch, runs.c.cancel_requested_at.is_(None))


def _transition(dialect: Dialect) -> Update:
    batch = _TRANSITIONS.rows(dialect)
    return _update(batch, _guard(batch))


@cache
def _cancel(dialect: Dialect) -> Update:
    batch = _TRANSITIONS.rows(dialect)
    return _update(batch, _guard(batch, runs.c.cancel_requested_at.is_not(None)))


def _update(batch: Subquery, guard: ColumnElement[bool]) -> Update:
    given = ("reason", "due_at", "worker", "result", "error", "args", "kwargs", "published_at", "progress")
    values: dict[str, Any] = {name: func.coalesce(batch.c[name], runs.c[name]) for name in given}
    # A worker's clock may date the report before the cancel request: the run ends no earlier than the request.
    is_cancel = batch.c.to == literal_column(f"'{RunState.CANCELLED}'")
    asked_later = and_(is_cancel, runs.c.cancel_requested_at > batch.c.finished_at)
    ended_at = case((asked_later, runs.c.cancel_requested_at), else_=batch.c.finished_at)
    values["finished_at"] = func.coalesce(ended_at, runs.c.finished_at)
    return (
        update(runs)
        .where(guard)
        .values(state=batch.c.to, started_at=func.coalesce(runs.c.started_at, batch.c.started_at), **values)
        .returning(runs.c.run_id)
    )


@cache
def _keep_attempts(dialect: Dialect) -> Any:
    batch = _TRANSITIONS.rows(dialect)
    outcome = case({event.value: name for event, name in _OUTCOMES.items()}, value=batch.c.event)
    ended = {
        "run_id": runs.c.run_id,
        "attempt": runs.c.attempt,
        "outcome": outcome,
        "reason": batch.c.reason,
        "pending_at": runs.c.pending_at,
        "published_at": func.coalesce(batch.c.published_at, runs.c.published_at),
        "started_at": func.coalesce(runs.c.started_at, batch.c.started_at),
        "finished_at": batch.c.at,
        "worker": func.coalesce(batch.c.worker, runs.c.worker),
        "error": batch.c.error,
        "progress": batch.c.progress,
    }
    rows = select(*ended.values()).where(_unless_cancelled(batch)).with_for_update(of=runs)
    return dialect.insert(run_attempts).from_select(list(ended), rows)


@cache
def _retry(dialect: Dialect) -> Update:
    batch = _TRANSITIONS.rows(dialect)
    asked = case((batch.c.event == literal_column(f"'{Event.RETRY}'"), 1), else_=0)
    cleared = dict.fromkeys(("pending_at", "published_at", "started_at", "worker", "error"), null())
    return (
        update(runs)
        .where(_unless_cancelled(batch))
        .values(
            state=batch.c.to,
            attempt=runs.c.attempt + 1,
            retries=runs.c.retries + asked,
            due_at=func.coalesce(batch.c.due_at, batch.c.at),
            reason=batch.c.reason,
            args=func.coalesce(batch.c.args, runs.c.args),
            kwargs=func.coalesce(batch.c.kwargs, runs.c.kwargs),
            **cleared,
        )
        .returning(runs.c.run_id)
    )


@cache
def _recall(dialect: Dialect) -> Update:
    """Let the run wait again in the same attempt; its seq stays, and says that it was dispatched."""
    batch = _TRANSITIONS.rows(dialect)
    return (
        update(runs)
        .where(_unless_cancelled(batch))
        .values(
            state=batch.c.to,
            reason=batch.c.reason,
            recalled_at=batch.c.at,
            pending_at=null(),
            published_at=null(),
        )
        .returning(runs.c.run_id)
    )


def _mark_published(dialect: Dialect) -> Update:
    batch = _MARKS.rows(dialect)
    is_in_flight_or_over = and_(runs.c.attempt == batch.c.attempt, runs.c.pending_at.is_not(None))
    return (
        update(runs)
        .where(runs.c.run_id == batch.c.run_id, judged(batch.c.run_id, is_in_flight_or_over))
        .values(published_at=batch.c.at)
    )


_TRANSITION: Final = ReadyStatement(_transition)
_MARK_PUBLISHED: Final = ReadyStatement(_mark_published)
