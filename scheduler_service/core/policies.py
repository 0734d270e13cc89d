"""Policy decisions: misfire, overlap, retry. Pure functions; no side effects."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Final, assert_never

from itinerary.protocol.instants import Duration, Instant, format_duration
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.core.model import ActiveRun, Misfire, MisfirePolicy, Overlap
from scheduler_service.core.run_state import Event, RunState, next_state

OVERLAP_WORD: Final = "overlap"
"""The first word of every reason of the overlap rule."""
START_WITHIN: Final = "start_within"
"""The first word of every reason of a start deadline."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The missed occurrences to run (ascending indexes), the number of the others, and the reason."""

    keep: tuple[int, ...]
    missed: int
    reason: str | None


def judge_lateness(misfire: Misfire, due: Sequence[Instant], count: int, now: Instant) -> Judgement:
    """Judge `count` occurrences, of which `due` are the newest, in the order of their nominal times.

    Late means due more than the grace before `now`. fire_once runs only the newest one, fire_all the newest
    `max_catch_up`, skip none of the late ones; those still within the grace run in any case.
    """
    on_time = [i for i, d in enumerate(due) if now - d <= misfire.grace]
    late = [i for i, d in enumerate(due) if now - d > misfire.grace]
    keep: list[int]
    match misfire.policy:
        case MisfirePolicy.FIRE_ONCE:
            keep = [] if on_time else late[-1:]
        case MisfirePolicy.FIRE_ALL:
            keep = late[-misfire.max_catch_up :]
        case MisfirePolicy.SKIP:
            keep = []
        case _:
            assert_never(misfire.policy)
    missed = count - len(on_time) - len(keep)
    reason = f"misfire {misfire.policy.value}: later than {format_duration(misfire.grace)}" if missed else None
    return Judgement(tuple(sorted(keep + on_time)), missed, reason)


def catches_up(due_at: Instant, misfire: Misfire, overlap: Overlap, now: Instant, prompt: Duration) -> bool:
    """Whether the occurrence is a catch-up run: under fire_all such runs wait for each other.

    That is an occurrence found due later than `prompt`, also within the grace: each would have run alone had a leader
    been active. With `allow` they may overlap.
    """
    late = now - due_at > min(prompt, misfire.grace)
    return late and misfire.policy is MisfirePolicy.FIRE_ALL and overlap is not Overlap.ALLOW


class Admission(StrEnum):
    """The decision about a due run while other runs of its job are not final."""

    GO = "go"
    SKIP = "skip"
    HOLD = "hold"
    CANCEL_OTHERS = "cancel_others"


def decide_overlap(policy: Overlap, live: int, held: int, in_turn: int = 0) -> Admission:
    """Decide a due run's admission: `live` runs of its job are not final, and `held` ones wait behind them.

    `in_turn` of the held runs are queue_all or catch-up runs, which do not count against the one place of `queue`.
    """
    if live == 0 and held == 0:
        return Admission.GO
    match policy:
        case Overlap.ALLOW:
            return Admission.GO
        case Overlap.SKIP:
            return Admission.SKIP
        case Overlap.QUEUE:
            return Admission.HOLD if held == in_turn else Admission.SKIP
        case Overlap.QUEUE_ALL:
            return Admission.HOLD
        case Overlap.CANCEL_RUNNING:
            return Admission.CANCEL_OTHERS
        case _:
            assert_never(policy)


def could_go_since(run: ActiveRun) -> Instant | None:
    """The instant from which a run that has not started is late; None while it waits for its turn.

    A run queued behind others (queue_all) counts as due only once it is dispatched.
    """
    if run.overlap is not Overlap.QUEUE_ALL or run.state is RunState.RETRYING:
        return run.due_at
    return run.pending_at


def backoff(retry: RetryPolicy, run_id: str, attempt: int) -> Duration:
    """The pause after `attempt` failed: exponential and capped; jitter picks within its upper half by a stable hash."""
    exponent = min(attempt - 1, 64)
    pause = int(min(retry.max, retry.initial * float(retry.factor) ** exponent))
    if not retry.jitter or pause < 2:
        return pause
    digest = blake2b(f"{run_id}~{attempt}".encode(), digest_size=8).digest()
    return pause // 2 + int.from_bytes(digest, "big") % (pause - pause // 2)


def after_failure(run: ActiveRun, event: Event, at: Instant) -> tuple[RunState, Instant | None]:
    """The state after a failed attempt, and when the next attempt is due (None if there is none)."""
    left = run.attempt < run.retry.max_attempts
    to = next_state(run.run_id, run.state, event, attempts_left=left)
    return (to, at + backoff(run.retry, run.run_id, run.attempt)) if to is RunState.RETRYING else (to, None)


def next_attempt(run: ActiveRun, due_at: Instant) -> ActiveRun:
    """The run as it waits for its next attempt."""
    return run._replace(
        state=RunState.RETRYING,
        attempt=run.attempt + 1,
        due_at=due_at,
        pending_at=None,
        published_at=None,
        started_at=None,
        worker=None,
        seq=0,
    )
