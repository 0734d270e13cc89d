"""Explains the state of a run, from its row and its surroundings. Pure: reads no clock and queries nothing."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, assert_never

from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.core.explain import holds
from scheduler_service.core.explain.explanation import (
    Because,
    Explanation,
    Verdict,
    attempt_row,
    audit_row,
    run_row,
    version_row,
)
from scheduler_service.core.explain.facts import Facts, Version, waited
from scheduler_service.core.explain.relative import rough
from scheduler_service.core.explain.terms import leader_at, unled
from scheduler_service.core.freezes import FREEZE_SKIPS, HELD_BY_FREEZE
from scheduler_service.core.model import Overlap, Run, RunKind
from scheduler_service.core.policies import OVERLAP_WORD, START_WITHIN
from scheduler_service.core.run_state import RunState

_BY_REASON: Final = {"lost": Verdict.LOST, "timed_out": Verdict.TIMED_OUT, "unroutable": Verdict.UNROUTABLE}
_Found = tuple[Verdict, list[Because]]


def explain_run(run: Run, facts: Facts) -> Explanation:
    """Return the verdict on a run, with every event that led to it in order of time."""
    verdict, now_so = _present(run, facts)
    because = [Because(_origin(run), run_row(run)), *_tries(run), *_lateness(run, facts), *now_so]
    at = run.scheduled_at if run.kind is RunKind.OCCURRENCE else None
    return Explanation(verdict, tuple(because), run.job_id, run.run_id, at)


def version_at(versions: Sequence[Version], at: Instant) -> Version | None:
    """Return the version that is valid at an instant."""
    return next((v for v in reversed(versions) if v.job.effective_from <= at), None)


def in_pause(version: Version, at: Instant) -> bool:
    """Whether a pause of this version prevents an occurrence at `at` from running."""
    until = version.job.paused_until
    return version.job.paused and (until is None or at < until)


def pause_text(versions: Sequence[Version], holding: Version) -> Because:
    """Describe a pause: its author, start, reason and length."""
    began = holding
    for version in reversed(versions[: versions.index(holding)]):
        if not version.job.paused:
            break
        began = version
    job = began.job
    message = f"Job {job.job_id} was paused at {format_instant(job.effective_from)} by {somebody(began.actor)}"
    if holding.job.paused_until is not None:
        message += f" until {format_instant(holding.job.paused_until)}"
    if job.pause_reason:
        message += f': "{job.pause_reason}"'
    return Because(f"{message}.", version_row(began))


def somebody(actor: str | None) -> str:
    """Name the author of a change, if known."""
    return actor if actor is not None else "somebody whose name is not recorded"


def _origin(run: Run) -> str:
    match run.kind:
        case RunKind.OCCURRENCE:
            message = (
                f"It is planned for {format_instant(run.scheduled_at)} by version {run.job_version} of {run.job_id}"
            )
        case RunKind.MANUAL:
            message = f"It was requested manually, as job {run.job_id}, for {format_instant(run.scheduled_at)}"
        case RunKind.ADHOC:
            message = f"It was enqueued for {format_instant(run.scheduled_at)}"
        case _:
            assert_never(run.kind)
    if run.retry_of is not None:
        message += f", to run {run.retry_of} again"
    return f"{message}; due {format_instant(run.due_at)}."


def _tries(run: Run) -> Iterator[Because]:
    for attempt in run.attempts:
        failed = f"{attempt.error.type}: {attempt.error.message}" if attempt.error else None
        why = failed if attempt.reason in (None, attempt.outcome) else attempt.reason
        ended = "" if attempt.finished_at is None else f" at {format_instant(attempt.finished_at)}"
        text = f": {why}" if why else ""
        row = attempt_row(run, attempt.attempt)
        yield Because(f"Attempt {attempt.attempt} ended as {attempt.outcome}{ended}{text}.", row)
    for number, late in [*((a.attempt, a.late) for a in run.attempts), (run.attempt, run.late)]:
        if late is not None:
            times = "Once" if late.count == 1 else f"{late.count} times"
            message = (
                f"{times} a report of attempt {number} came after it was over, and changed nothing: the last said "
            )
            message += f"{late.kind}, by {late.worker} at {format_instant(late.at)}."
            yield Because(message, attempt_row(run, number))


def _lateness(run: Run, facts: Facts) -> Iterator[Because]:
    """Explain a run that was dispatched late: pauses, a run ahead, times without a leader."""
    span = waited(run)
    if span is None:
        return
    since, until = span
    yield Because(f"It was dispatched at {format_instant(until)}, {rough(until - since)} late.")
    if run.attempt == 1:  # neither a pause nor another run delays a retry
        if run.kind is RunKind.OCCURRENCE:
            yield from _pauses(facts.versions, since, until)
        yield from _run_ahead(facts, since, until)
    yield from holds.held_before(facts, since, until)
    yield from unled(facts.terms, since, until)


def _pauses(versions: Sequence[Version], since: Instant, until: Instant) -> Iterator[Because]:
    """Describe the pauses that ended while it waited; one that skips waiting runs delayed nothing."""
    for paused, after in zip_longest(versions, versions[1:]):
        job = paused.job
        if not job.paused or job.pause_skips or (after is not None and after.job.paused):
            continue
        resumed_at = None if after is None else after.job.effective_from
        ended_at = min((at for at in (job.paused_until, resumed_at) if at is not None), default=None)
        if ended_at is not None and since < ended_at <= until:
            by = f", when {somebody(after.actor)} resumed it" if after is not None and ended_at == resumed_at else ""
            yield pause_text(versions, paused)
            yield Because(f"It was held back until {format_instant(ended_at)}{by}.")


def _run_ahead(facts: Facts, since: Instant, until: Instant) -> Iterator[Because]:
    """Describe the run of the same job that it waited for, if its overlap rule forbade running both."""
    ahead = facts.ahead
    if ahead is None or ahead.finished_at is None:
        return
    pairs = zip_longest(facts.versions, facts.versions[1:])
    held = [v.job for v, after in pairs if v.job.effective_from <= until and (not after or _began(after) > since)]
    rules = {facts.own_overlap} if facts.own_overlap is not None else {job.overlap for job in held}
    if rules and Overlap.ALLOW not in rules:
        message = (
            f"Run {ahead.run_id} of the same job ended at {format_instant(ahead.finished_at)} as {ahead.state.value}"
        )
        yield Because(f"{message}, and this one had to wait for it.", run_row(ahead))


def _began(version: Version) -> Instant:
    return version.job.effective_from


def _present(run: Run, facts: Facts) -> _Found:
    match run.state:
        case RunState.SCHEDULED:
            return _scheduled(run, facts)
        case RunState.RETRYING:
            return _overdue(run, facts, Verdict.RETRYING, f"Attempt {run.attempt} is due {format_instant(run.due_at)}.")
        case RunState.PENDING:
            return _pending(run, facts)
        case RunState.RUNNING:
            since = "" if run.started_at is None else f" since {format_instant(run.started_at)}"
            return Verdict.RUNNING, [Because(f"Worker {run.worker} runs it{since}."), *_asked_to_stop(run, facts)]
        case RunState.COMPLETED:
            return Verdict.COMPLETED, [Because(f"Worker {run.worker} completed it at {_finished(run)}.")]
        case RunState.FAILED:
            return _failed(run)
        case RunState.CANCELLED:
            why = Because(f"It was cancelled at {_finished(run)}{_reason_text(run.reason)}.")
            return Verdict.CANCELLED, [*_asked_to_stop(run, facts), why]
        case RunState.SKIPPED:
            return _skipped(run, facts)
        case RunState.MISSED:
            if (run.reason or "").startswith(START_WITHIN):
                message = f"It was not started in time, and ended at {_finished(run)}: {run.reason}."
                return Verdict.MISFIRE, [*led_or_not(facts, run.due_at), Because(message)]
            message = f"It was too late when a leader processed it:  {run.reason}."
            return Verdict.MISFIRE, [*led_or_not(facts, run.due_at), Because(message)]
        case _:
            assert_never(run.state)


def led_or_not(facts: Facts, at: Instant) -> list[Because]:
    """Say whether a leader led when it was due."""
    if not facts.terms or leader_at(facts.terms, at) is not None:
        return []
    return unled(facts.terms, at, facts.now)[:1]


def _scheduled(run: Run, facts: Facts) -> _Found:
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
    return _overdue(run, facts, Verdict.WAITING, f"{_pending_text(run, facts)} It is dispatched when there is room.")


def _overdue(run: Run, facts: Facts, verdict: Verdict, message: str) -> _Found:
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
    return verdict, [Because(message)]


def _pending(run: Run, facts: Facts) -> _Found:
    sent = _queue_text(run, facts)
    if run.published_at is None:
        sent = "Whether the broker has its message is not confirmed yet; it is sent again until it is."
    because = [Because(sent), *_asked_to_stop(run, facts)]
    if (held := holds.held_now(run, facts)) is not None:
        recalled = "The leader recalls it, unless a worker has taken it or does not know recalls."
        because += [held[1][0], Because(recalled)]
    if facts.live is None:
        nobody = unled(facts.terms, run.pending_at or run.due_at, facts.now)
        unheard = "No leader answers, so it is unknown which workers listen."
        return Verdict.WAITING_FOR_WORKER, [*because, *nobody, Because(unheard)]
    listening = facts.live.listening_on(run.queue)
    if not listening:
        message = f"No living worker listens on queue {run.queue}: start one with `itinerary worker -Q {run.queue}`."
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


def _pending_text(run: Run, facts: Facts) -> str:
    if facts.live is None:
        return "The leader does not answer."
    in_flight = facts.live.pending_on(run.queue)
    runs, are = ("run", "is") if in_flight == 1 else ("runs", "are")
    return f"{in_flight} {runs} of queue {run.queue} {are} dispatched and not started."


def _failed(run: Run) -> _Found:
    verdict = next((v for reason, v in _BY_REASON.items() if (run.reason or "").startswith(reason)), Verdict.FAILED)
    error = "" if run.error is None else f" {run.error.type}: {run.error.message}"
    allowed = run.retry.max_attempts
    spent = "its retry policy allows one attempt" if allowed == 1 else f"its retry policy allows {allowed} attempts"
    if run.retry.unread:
        spent = f"{spent}; its stored retry policy cannot be read: {run.retry.unread[:200]}"
    message = f"Attempt {run.attempt} failed at {_finished(run)}{_reason_text(run.reason)}.{error}"
    return verdict, [Because(message), Because(f"It is not retried: {spent}.")]


def _skipped(run: Run, facts: Facts) -> _Found:
    if (run.reason or "").startswith(OVERLAP_WORD):
        holding = version_at(facts.versions, run.scheduled_at)
        row = None if holding is None else version_row(holding)
        return Verdict.OVERLAP, [Because(f"It was skipped at {_finished(run)}: {run.reason}.", row)]
    because = [Because(f"It was skipped at {_finished(run)}{_reason_text(run.reason)}.")]
    if (run.reason or "").startswith((FREEZE_SKIPS, HELD_BY_FREEZE)):
        return Verdict.FROZEN, because
    holding = version_at(facts.versions, run.finished_at or facts.now)
    if holding is not None and holding.job.paused:
        because.insert(0, pause_text(facts.versions, holding))
    return Verdict.PAUSED, because


def _asked_to_stop(run: Run, facts: Facts) -> list[Because]:
    if run.cancel_requested_at is None:
        return []
    change = next((entry for entry in facts.audit_entries if entry.action == "run.cancel"), None)
    by = "" if change is None else f" by {change.actor}"
    asked = f"Its cancellation was requested{by} at {format_instant(run.cancel_requested_at)}."
    return [Because(asked, None if change is None else audit_row(change))]


def _finished(run: Run) -> str:
    return "an unknown time" if run.finished_at is None else format_instant(run.finished_at)


def _reason_text(reason: str | None) -> str:
    return f": {reason}" if reason else ""
