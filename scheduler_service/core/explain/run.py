"""Explains the state of a run, from its row and its surroundings. Pure: reads no clock and queries nothing."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Final, assert_never

from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.core.explain import holds
from scheduler_service.core.explain.explanation import (
    Because,
    Explanation,
    Verdict,
    attempt_row,
    run_row,
    version_row,
)
from scheduler_service.core.explain.facts import Facts, Version, waited
from scheduler_service.core.explain.pauses import pause_text, pauses_between, version_at
from scheduler_service.core.explain.relative import rough
from scheduler_service.core.explain.terms import leader_at, unled
from scheduler_service.core.explain.waiting import asked_to_stop, overdue, pending, scheduled
from scheduler_service.core.freezes import FREEZE_SKIPS, HELD_BY_FREEZE
from scheduler_service.core.model import Overlap, Run, RunKind
from scheduler_service.core.policies import OVERLAP_WORD, START_WITHIN
from scheduler_service.core.run_state import RunState

_BY_REASON: Final = {"lost": Verdict.LOST, "timed_out": Verdict.TIMED_OUT, "unroutable": Verdict.UNROUTABLE}
RECALLED: Final = "recalled: "
_Found = tuple[Verdict, list[Because]]


def explain_run(run: Run, facts: Facts) -> Explanation:
    """Return the verdict on a run, with every event that led to it in order of time."""
    verdict, now_so = _present(run, facts)
    because = [
        Because(_origin(run), run_row(run)),
        *_tries(run),
        *_recall(run, facts),
        *_lateness(run, facts),
        *now_so,
        *_sla(run),
    ]
    at = run.scheduled_at if run.kind is RunKind.OCCURRENCE else None
    return Explanation(verdict, tuple(because), run.job_id, run.run_id, at)


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


def _recall(run: Run, facts: Facts) -> Iterator[Because]:
    if facts.recalled_at is not None:
        reason = run.reason or ""
        why = reason.removeprefix(RECALLED) if reason.startswith(RECALLED) else ""
        at = format_instant(facts.recalled_at)
        yield Because(f"Its message was taken back from queue {run.queue} at {at}{_reason_text(why)}")


def _lateness(run: Run, facts: Facts) -> Iterator[Because]:
    """Explain a run that was dispatched late: pauses, a run ahead, times without a leader."""
    span = waited(run)
    if span is None:
        return
    since, until = span
    yield Because(f"It was dispatched at {format_instant(until)}, {rough(until - since)} late.")
    if run.attempt == 1:  # neither a pause nor another run delays a retry
        if run.kind is RunKind.OCCURRENCE:
            yield from pauses_between(facts.versions, since, until)
        yield from _run_ahead(facts, since, until)
    yield from holds.held_before(facts, since, until)
    yield from unled(facts.terms, since, until)


def _sla(run: Run) -> Iterator[Because]:
    if run.end_by is None:
        return
    by = format_instant(run.end_by)
    if run.sla_missed:
        when = "is not over" if run.finished_at is None else f"ended at {_finished(run)}"
        yield Because(f"It missed its SLA: it had to end by {by} (must_end_within), and {when}.")
    elif run.sla_missed is None:
        yield Because(f"It must end by {by} (must_end_within).")


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
            return scheduled(run, facts)
        case RunState.RETRYING:
            return overdue(run, facts, Verdict.RETRYING, f"Attempt {run.attempt} is due {format_instant(run.due_at)}.")
        case RunState.PENDING:
            return pending(run, facts)
        case RunState.RUNNING:
            since = "" if run.started_at is None else f" since {format_instant(run.started_at)}"
            return Verdict.RUNNING, [Because(f"Worker {run.worker} runs it{since}."), *asked_to_stop(run, facts)]
        case RunState.COMPLETED:
            return Verdict.COMPLETED, [Because(f"Worker {run.worker} completed it at {_finished(run)}.")]
        case RunState.FAILED:
            return _failed(run)
        case RunState.CANCELLED:
            why = Because(f"It was cancelled at {_finished(run)}{_reason_text(run.reason)}")
            return Verdict.CANCELLED, [*asked_to_stop(run, facts), why]
        case RunState.SKIPPED:
            return _skipped(run, facts)
        case RunState.MISSED:
            if (run.reason or "").startswith(START_WITHIN):
                message = f"It was not started in time, and ended at {_finished(run)}: {run.reason}."
                return Verdict.MISFIRE, [*led_or_not(facts, run.due_at), Because(message)]
            message = f"It was too late when a leader processed it: {run.reason}."
            return Verdict.MISFIRE, [*led_or_not(facts, run.due_at), Because(message)]
        case _:
            assert_never(run.state)


def led_or_not(facts: Facts, at: Instant) -> list[Because]:
    """Say whether a leader led when it was due."""
    if not facts.terms or leader_at(facts.terms, at) is not None:
        return []
    return unled(facts.terms, at, facts.now)[:1]


def _failed(run: Run) -> _Found:
    verdict = next((v for reason, v in _BY_REASON.items() if (run.reason or "").startswith(reason)), Verdict.FAILED)
    error = "" if run.error is None else f" {run.error.type}: {run.error.message}"
    allowed = run.retry.max_attempts
    spent = "its retry policy allows one attempt" if allowed == 1 else f"its retry policy allows {allowed} attempts"
    if run.retry.unread:
        spent = f"{spent}; its stored retry policy cannot be read: {run.retry.unread[:200]}"
    message = f"Attempt {run.attempt} failed at {_finished(run)}{_reason_text(run.reason)}{error}"
    return verdict, [Because(message), Because(f"It is not retried: {spent}.")]


def _skipped(run: Run, facts: Facts) -> _Found:
    if (run.reason or "").startswith(OVERLAP_WORD):
        holding = version_at(facts.versions, run.scheduled_at)
        row = None if holding is None else version_row(holding)
        return Verdict.OVERLAP, [Because(f"It was skipped at {_finished(run)}: {run.reason}.", row)]
    because = [Because(f"It was skipped at {_finished(run)}{_reason_text(run.reason)}")]
    if (run.reason or "").startswith((FREEZE_SKIPS, HELD_BY_FREEZE)):
        return Verdict.FROZEN, because
    holding = version_at(facts.versions, run.finished_at or facts.now)
    if holding is not None and holding.job.paused:
        because.insert(0, pause_text(facts.versions, holding))
    return Verdict.PAUSED, because


def _finished(run: Run) -> str:
    return "an unknown time" if run.finished_at is None else format_instant(run.finished_at)


def _reason_text(reason: str | None) -> str:
    """The end of a sentence that gives the reason, which may be a question."""
    if not reason:
        return "."
    return f": {reason}" if reason.endswith(("?", ".")) else f": {reason}."
