"""Explains an occurrence of a job: from its row, its missed range, or the rule that left it out. Pure."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from itinerary.protocol.instants import DAY, Instant, format_instant
from scheduler_service.core.explain import holds
from scheduler_service.core.explain.calendars import left_out_by, stands_for
from scheduler_service.core.explain.explanation import (
    Because,
    Explanation,
    Verdict,
    missed_range_row,
    run_row,
    version_row,
)
from scheduler_service.core.explain.facts import Facts, Version
from scheduler_service.core.explain.pauses import in_pause, pause_text, somebody, version_at
from scheduler_service.core.explain.relative import rough
from scheduler_service.core.explain.run import explain_run, led_or_not
from scheduler_service.core.explain.terms import leader_at, unled
from scheduler_service.core.freezes import FREEZE_SKIPS, HELD_BY_FREEZE
from scheduler_service.core.model import Job, MissedRange
from scheduler_service.core.policies import OVERLAP_WORD
from scheduler_service.core.schedules.jitter import jitter_of
from scheduler_service.core.schedules.schedule import latest, next_after, occurrences

_LOOKBACK: Final = 366 * DAY
_BY_REASON: Final = {
    "row refused": Verdict.REFUSED,
    OVERLAP_WORD: Verdict.OVERLAP,
    FREEZE_SKIPS: Verdict.FROZEN,
    HELD_BY_FREEZE: Verdict.FROZEN,
}
_Found = tuple[Verdict, list[Because]]


def explain_occurrence(job_id: str, at: Instant, facts: Facts) -> Explanation:
    """Return the verdict on a job's occurrence at `at`; `facts.versions` holds at least one version."""
    explained = _explained(job_id, at, facts)
    holding = version_at(facts.versions, at)
    if holding is not None and fires(holding.job, at):
        explained = replace(explained, because=(*explained.because, *stands_for(holding.job, at)))
    if facts.backfilled is None:
        return explained
    again = facts.backfilled
    message = f"It was requested manually later, as run {again.run_id}, which is {again.state.value}."
    return replace(explained, because=(*explained.because, Because(message, run_row(again))))


def _explained(job_id: str, at: Instant, facts: Facts) -> Explanation:
    if facts.run is not None:
        return explain_run(facts.run, facts)
    holding = version_at(facts.versions, at)
    if holding is None:
        first = facts.versions[0]
        if first.job.version > 1:
            message = f"What job {job_id} was before version {first.job.version} was pruned."
            return Explanation(Verdict.UNKNOWN, (Because(message, version_row(first)),), job_id, None, at)
        message = f"Job {job_id} was created at {format_instant(first.job.effective_from)}, after this instant."
        return Explanation(Verdict.NEVER_DUE, (Because(message, version_row(first)),), job_id, None, at)
    for rule in _RULES:
        found = rule(holding, at, facts)
        if found is not None:
            verdict, because = found
            nearest = (None, None) if fires(holding.job, at) else _nearest(holding.job, at)
            return Explanation(verdict, tuple(because), job_id, None, at, nearest)
    raise AssertionError("unreachable: the last rule always matches")


def fires(job: Job, at: Instant) -> bool:
    """Whether the version's schedule names this instant, bounds and pauses aside."""
    return bool(occurrences(job.schedule, at, at + 1))


def _deleted(holding: Version, at: Instant, facts: Facts) -> _Found | None:
    if not holding.job.deleted:
        return None
    when = format_instant(holding.job.effective_from)
    return Verdict.DELETED, [
        Because(f"The job was deleted at {when} by {somebody(holding.actor)}.", version_row(holding))
    ]


def _closed(holding: Version, at: Instant, facts: Facts) -> _Found | None:
    because = left_out_by(holding, at)
    return (Verdict.CLOSED, because) if because else None


def _not_named(holding: Version, at: Instant, facts: Facts) -> _Found | None:
    """Explain that the schedule does not fire then; perhaps the previous version's did."""
    if fires(holding.job, at):
        return None
    place = facts.versions.index(holding)
    before = next((v for v in reversed(facts.versions[:place]) if not v.job.deleted and fires(v.job, at)), None)
    if before is not None:
        edit = facts.versions[facts.versions.index(before) + 1]
        if edit.job.version == before.job.version:
            since = format_instant(edit.job.effective_from)
            message = f"By its calendars of before {since} the job had it; by those from then on it does not fire then."
            return Verdict.EDITED_AWAY, [Because(message, version_row(edit))]
        message = (
            f"Version {before.job.version} had it, and was valid until {format_instant(edit.job.effective_from)}; then "
            f"{somebody(edit.actor)} changed the job, and version {holding.job.version}, which was valid at this "
            "instant, does not fire then."
        )
        return Verdict.EDITED_AWAY, [
            Because(message, version_row(edit)),
            Because("This is the version that had it.", version_row(before)),
        ]
    return Verdict.NEVER_DUE, [Because(_never(holding, at), version_row(holding)), *_later(facts, place, at)]


def _never(holding: Version, at: Instant) -> str:
    before, after = _nearest(holding.job, at)
    around = [f"the one before is {format_instant(before)}"] if before is not None else []
    around += [f"the next is {format_instant(after)}"] if after is not None else []
    message = f"Version {holding.job.version}, which is valid at this instant, does not fire then"
    return f"{message}: {', '.join(around) if around else 'it has no occurrence near it'}."


def _later(facts: Facts, place: int, at: Instant) -> list[Because]:
    later = next((v for v in facts.versions[place + 1 :] if not v.job.deleted and fires(v.job, at)), None)
    if later is None:
        return []
    since = format_instant(later.job.effective_from)
    return [Because(f"Version {later.job.version} would, but holds only from {since} on.", version_row(later))]


def _nearest(job: Job, at: Instant) -> tuple[Instant | None, Instant | None]:
    if job.deleted:
        return None, None
    before = latest(job.schedule, at - _LOOKBACK, at)
    after = next_after(job.schedule, at, start_at=job.start_at, end_at=job.end_at)
    return before, after


def _paused(holding: Version, at: Instant, facts: Facts) -> _Found | None:
    if not in_pause(holding, at):
        return None
    nothing_missed = Because("Occurrences during a pause are not made up for.")
    return Verdict.PAUSED, [pause_text(facts.versions, holding), nothing_missed]


def _out_of_bounds(holding: Version, at: Instant, facts: Facts) -> _Found | None:
    job = holding.job
    if job.start_at is not None and at < job.start_at:
        message = f"The job starts at {format_instant(job.start_at)}, after this instant."
    elif job.end_at is not None and at >= job.end_at:
        message = f"The job ended at {format_instant(job.end_at)}, which is not part of it."
    else:
        return None
    return Verdict.OUT_OF_BOUNDS, [Because(message, version_row(holding))]


def _in_missed_range(holding: Version, at: Instant, facts: Facts) -> _Found | None:
    if facts.missed_range is None:
        return None
    verdict = next(
        (v for message, v in _BY_REASON.items() if facts.missed_range.reason.startswith(message)), Verdict.MISFIRE
    )
    nobody = led_or_not(facts, at) if verdict is Verdict.MISFIRE else []
    return verdict, [*nobody, Because(_missed_range_text(facts.missed_range), missed_range_row(facts.missed_range))]


def _missed_range_text(missed_range: MissedRange) -> str:
    many = "It did not run" if missed_range.count == 1 else f"It is one of {missed_range.count} that did not run"
    start, end = format_instant(missed_range.start), format_instant(missed_range.end)
    return f"{many}, from {start} up to {end}: {missed_range.reason}."


def _to_come(holding: Version, at: Instant, facts: Facts) -> _Found | None:
    if at <= facts.now:
        return None
    left = rough(at - facts.now)
    message = f"It is an occurrence of version {holding.job.version}, in {left or 'less than a second'}."
    return Verdict.NOT_YET_DUE, [
        Because(message, version_row(holding)),
        Because("The leader creates its run shortly before."),
        *holds.coming(facts, at + jitter_of(holding.job.job_id, at, holding.job.jitter), planned=True),
    ]


def _unplanned(holding: Version, at: Instant, facts: Facts) -> _Found | None:
    if facts.cursor is not None and at < facts.cursor:
        return None
    until = "nothing yet" if facts.cursor is None else f"up to {format_instant(facts.cursor)}"
    planned = Because(f"Leaders have planned {until}.", {"table": "cursors", "materialised_until": until})
    if facts.terms and leader_at(facts.terms, facts.now) is not None:
        return Verdict.WAITING, [planned, Because("One leads now, and is about to plan it.")]
    nobody = unled(facts.terms, at, facts.now) or [Because("No leader was ever started.")]
    return Verdict.NO_LEADER, [planned, *nobody]


def _not_kept(holding: Version, at: Instant, facts: Facts) -> _Found:
    message = (
        f"Version {holding.job.version} fires then, and leaders have planned beyond it, but there is neither a run nor "
        "a missed range any more."
    )
    because = [Because(message, version_row(holding))]
    if facts.pruned_until is not None and at < facts.pruned_until:
        until = format_instant(facts.pruned_until)
        kept = Because(f"Runs of before {until} were pruned.", {"table": "cursors", "pruned_until": until})
        return Verdict.UNKNOWN, [*because, kept]
    return Verdict.UNKNOWN, [*because, Because("It was removed from the database.")]


_Rule = Callable[[Version, Instant, Facts], _Found | None]
_RULES: Final[tuple[_Rule, ...]] = (
    _deleted, _closed, _not_named, _paused, _out_of_bounds, _in_missed_range, _to_come, _unplanned, _not_kept,
)  # fmt: skip
