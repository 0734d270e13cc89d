"""Explains what a run waits for: its time, a leader, a limit, room in its queue, or a worker. Pure."""

from itinerary.protocol.instants import format_instant
from scheduler_service.core.explain import holds, limited
from scheduler_service.core.explain.explanation import Because, Verdict, audit_row, version_row
from scheduler_service.core.explain.facts import Facts
from scheduler_service.core.explain.pauses import in_pause, pause_text, version_at
from scheduler_service.core.explain.relative import rough
from scheduler_service.core.explain.terms import leader_at, unled
from scheduler_service.core.model import Overlap, Run, RunKind
from scheduler_service.core.worker_command import worker_command

_Found = tuple[Verdict, list[Because]]


def scheduled(run: Run, facts: Facts) -> _Found:
    """Explain a run that was not dispatched yet."""
    holding = version_at(facts.versions, facts.now)
    judged_at = run.scheduled_at if holding is not None and holding.job.pause_skips else facts.now
    if holding is not None and run.kind is RunKind.OCCURRENCE and in_pause(holding, judged_at):
        coming = "It is skipped when it falls due." if holding.job.pause_skips else "It waits until the job is resumed."
        return Verdict.PAUSED, [pause_text(facts.versions, holding), Because(coming)]
    waits = holding is not None and holding.job.overlap is not Overlap.ALLOW
    others = [] if facts.live is None else [run_id for run_id in facts.live.job_runs if run_id != run.run_id]
    if waits and run.due_at <= facts.now and others:
        message = f"Run {others[0]} of the same job is not final; the job's overlap rule lets this one wait for it."
        return Verdict.OVERLAP, [Because(message, None if holding is None else version_row(holding))]
    return overdue(run, facts, Verdict.WAITING, _room_text(run, facts))


def overdue(run: Run, facts: Facts, verdict: Verdict, message: str) -> _Found:
    """Explain a run that waits for its time, or past it for what keeps it back: `message`, if nothing else does."""
    if run.due_at > facts.now:
        early = verdict if verdict is Verdict.RETRYING else Verdict.NOT_YET_DUE
        left = rough(run.due_at - facts.now)
        return early, [Because(f"That is in {left}." if left else "That is now."), *holds.to_come(run, facts)]
    if (held := holds.held_now(run, facts)) is not None:
        return held
    if facts.terms and leader_at(facts.terms, facts.now) is None:
        return Verdict.NO_LEADER, unled(facts.terms, run.due_at, facts.now)
    if not facts.terms:
        return Verdict.NO_LEADER, [Because("No leader was ever started, so nothing dispatches it.")]
    return limited.waits_for(run, facts) or (verdict, [Because(message)])


def pending(run: Run, facts: Facts) -> _Found:
    """Explain a run that was dispatched and not started."""
    sent = _queue_text(run, facts)
    if run.published_at is None:
        sent = "Whether the broker has its message is not confirmed yet; it is sent again until it is."
    because = [Because(sent), *asked_to_stop(run, facts)]
    if (held := holds.held_now(run, facts)) is not None:
        recalled = "The leader recalls it, unless a worker has taken it or does not know recalls."
        because += [held[1][0], Because(recalled)]
    if facts.live is None:
        nobody = unled(facts.terms, run.pending_at or run.due_at, facts.now)
        unheard = "No leader answers, so it is unknown which workers listen."
        return Verdict.WAITING_FOR_WORKER, [*because, *nobody, Because(unheard)]
    listening = facts.live.listening_on(run.queue)
    if not listening:
        start = worker_command(run.queue, task=run.task)
        message = f"No living worker listens on queue {run.queue}: start one with `{start}`."
        return Verdict.NO_WORKER, [*because, Because(message)]
    names = ", ".join(sorted(listening)[:5])
    return Verdict.WAITING_FOR_WORKER, [*because, Because(f"{_pending_text(run, facts)} Listening: {names}.")]


def _queue_text(run: Run, facts: Facts) -> str:
    """Say where its message is, as far as the queue itself was checked."""
    if facts.in_queue is None:
        return f"A message for it was sent to queue {run.queue}."
    held = f"{facts.in_queue} message{' waits' if facts.in_queue == 1 else 's wait'} there"
    if not facts.none_of_ours:
        return f"A message for it was sent to queue {run.queue}; {held}."
    foreign = f" ({held}, all from others)" if facts.in_queue else ""
    return (
        f"Its message is not in queue {run.queue} any more{foreign}: a worker holds it until its turn comes, or it was "
        f"lost and is sent again."
    )


def _room_text(run: Run, facts: Facts) -> str:
    if facts.live is None:
        unknown = "The leader does not answer, so what holds it is unknown."
        return f"{limited.counts_for(run)}{unknown} It is dispatched when there is room."
    known = facts.live.waiting or {}
    if known.get("is_being_dispatched"):
        return "The leader is dispatching it."
    if facts.live.waiting is not None and "before" not in known:
        return "The leader does not hold it in memory: it reads due runs by priority and due time, as it has room."
    return f"{_pending_text(run, facts)} It is dispatched when there is room{limited.before_text(known)}."


def _pending_text(run: Run, facts: Facts) -> str:
    if facts.live is None:
        return "The leader does not answer."
    in_flight = facts.live.pending_on(run.queue)
    runs, are = ("run", "is") if in_flight == 1 else ("runs", "are")
    return f"{in_flight} {runs} of queue {run.queue} {are} dispatched and not started."


def asked_to_stop(run: Run, facts: Facts) -> list[Because]:
    """Name who requested the cancellation."""
    if run.cancel_requested_at is None:
        return []
    change = next((entry for entry in facts.audit_entries if entry.action == "run.cancel"), None)
    by = "" if change is None else f" by {change.actor}"
    asked = f"Its cancellation was requested{by} at {format_instant(run.cancel_requested_at)}."
    return [Because(asked, None if change is None else audit_row(change))]
