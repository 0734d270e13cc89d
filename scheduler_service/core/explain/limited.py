"""Explains for which limit or slot a due run waits, by what the leader answered from memory. Pure."""

from collections.abc import Mapping
from typing import Any

from itinerary.protocol.limits import LimitUse
from scheduler_service.core.explain.explanation import Because, Verdict
from scheduler_service.core.explain.facts import Facts
from scheduler_service.core.limits import QUEUE
from scheduler_service.core.model import Run
from scheduler_service.core.worker_command import worker_command

_Answer = Mapping[str, Any]


def waits_for(run: Run, facts: Facts) -> tuple[Verdict, list[Because]] | None:
    """Name the limits without room, or the slot that a run with limits needs; None if neither holds it."""
    known = None if facts.live is None else facts.live.waiting
    if known is None or known.get("is_being_dispatched"):
        return None
    if known["limits"]:
        *first, last = (_limit_text(one) for one in known["limits"])
        last += before_text(known, max(one["lanes"] for one in known["limits"]) - 1)
        kept = [Because("What comes free is kept for it until it goes.")] if known.get("is_kept_for") else []
        return Verdict.WAITING_FOR_LIMIT, [*(Because(f"It waits for {text}.") for text in (*first, last)), *kept]
    if not run.limits or known.get("free_slots", 1):
        return None
    if known["free_slots"] is None:
        start = worker_command(run.queue, task=run.task)
        nobody = f"No live worker listens on queue {run.queue}: start one with `{start}`."
        return Verdict.NO_WORKER, [Because(nobody)]
    busy = (
        f"The workers that listen on queue {run.queue} have no slot free: a run with limits is dispatched when one is"
    )
    return Verdict.WAITING_FOR_WORKER, [Because(f"{busy}{before_text(known)}.")]


def counts_for(run: Run) -> str:
    """Name the limits of the run's row, where nobody can say what holds it."""
    names = ", ".join(str(use) for use in run.limits)
    return f"It counts for limit{'s' if len(run.limits) > 1 else ''} {names}. " if names else ""


def before_text(known: _Answer, others: int = 0) -> str:
    """How many wait before it; empty where the leader does not hold the run."""
    if "before" not in known:
        return ""
    number, is_exact = known["before"], known["before_is_exact"]
    wait = "waits" if number <= 1 and is_exact else "wait"
    text = f"; {'none' if number == 0 else f'{number:,}' if is_exact else f'more than {number:,}'} {wait} before it"
    if others > 0:
        text += f", and {others} other {'lane takes' if others == 1 else 'lanes take'} turns with its own"
    return text


def _limit_text(full: _Answer) -> str:
    use = LimitUse(full["name"], full["key"])
    parts = []
    if full["concurrency"] is not None:
        parts.append(f"{_of(full['in_flight'], full['concurrency'], 'in flight')}{_holders(full)}")
    if full["rate"] is not None:
        count, per = full["rate"]["count"], full["rate"]["per"]
        parts.append(_of(full["started"], count, f"starts in {per}"))
        if full["free_at"] is not None:
            parts.append(f"the next may come free at {full['free_at']}")
        elif full["started"] >= count:
            parts.append(f"the next comes free {per} after a worker reports one that is dispatched")
    if full.get("kept_for") is not None:
        parts.append(f"what is free is kept for run {full['kept_for']}, which was passed over for long")
    name = f"the limit of queue {use.name[len(QUEUE) :]}" if use.name.startswith(QUEUE) else f"limit {use}"
    return f"{name}: {'; '.join(parts)}"


def _of(number: int, allowed: int, what: str) -> str:
    if number > allowed:
        return f"{number:,} {what}, where {allowed:,} {'is' if allowed == 1 else 'are'} allowed"
    return f"{number:,} of {allowed:,} {what}"


def _holders(full: _Answer) -> str:
    named = [_holder(one) for one in full["held_by"]]
    others = full["in_flight"] - len(named)
    if not named:
        return ""
    if others > 0:
        named.append("1 other" if others == 1 else f"{others:,} others")
    *first, last = named
    return f", held by {', '.join(first)} and {last}" if first else f", held by {last}"


def _holder(one: _Answer) -> str:
    if one["attempt"] is not None:
        return f"attempt {one['attempt']} of run {one['run_id']}, which was given up and still runs"
    if one.get("is_being_dispatched"):
        return f"run {one['run_id']} (being dispatched)"
    return f"run {one['run_id']}" if one["since"] is None else f"run {one['run_id']} since {one['since']}"
