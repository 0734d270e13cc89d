"""The answer to "why?": a verdict, the sentences that lead to it, and the row behind each of them.

Promises that a sentence claims no more than its row shows. It reads nothing: the facts are given.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.core.audit import AuditEntry, audit_body
from scheduler_service.core.contract.job_json import definition_of, optional_instant
from scheduler_service.core.contract.run_json import run_body
from scheduler_service.core.explain.facts import Term, Version
from scheduler_service.core.model import MissedRange, Run


class Verdict(StrEnum):
    """The conclusion of an explanation."""

    COMPLETED = "completed"
    FAILED = "failed"
    LOST = "lost"
    TIMED_OUT = "timed_out"
    UNROUTABLE = "unroutable"
    CANCELLED = "cancelled"
    RUNNING = "running"
    RETRYING = "retrying"
    WAITING = "waiting"
    WAITING_FOR_LIMIT = "waiting_for_limit"
    WAITING_FOR_WORKER = "waiting_for_worker"
    NO_WORKER = "no_worker"
    NO_LEADER = "no_leader"
    NOT_YET_DUE = "not_yet_due"
    NEVER_DUE = "never_due"
    EDITED_AWAY = "edited_away"
    DELETED = "deleted"
    PAUSED = "paused"
    FROZEN = "frozen"
    CLOSED = "closed"
    OUT_OF_BOUNDS = "out_of_bounds"
    OVERLAP = "overlap"
    MISFIRE = "misfire"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Because:
    """One sentence, and its row if there is one."""

    message: str
    row: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reasons for the state of an occurrence or a run; `nearest` are the occurrences around one that never was."""

    verdict: Verdict
    because: tuple[Because, ...]
    job_id: str | None = None
    run_id: str | None = None
    at: Instant | None = None
    nearest: tuple[Instant | None, Instant | None] = (None, None)


def explanation_body(explained: Explanation) -> dict[str, Any]:
    """Return the explanation as the API shows it."""
    before, after = explained.nearest
    return {
        "job_id": explained.job_id,
        "run_id": explained.run_id,
        "at": optional_instant(explained.at),
        "verdict": explained.verdict.value,
        "text": " ".join(because.message for because in explained.because),
        "because": [{"words": because.message, "row": because.row} for because in explained.because],
        "nearest_before": optional_instant(before),
        "nearest_after": optional_instant(after),
    }


def version_row(version: Version) -> dict[str, Any]:
    """Return the row of `job_versions`, as far as an explanation needs it."""
    job = version.job
    definition = definition_of(job)
    shown = {name: definition[name] for name in ("schedule", "start_at", "end_at", "overlap", "misfire")}
    return {
        "table": "job_versions",
        "job_id": job.job_id,
        "version": job.version,
        "effective_from": format_instant(job.effective_from),
        "actor": version.actor,
        "paused": job.paused,
        "pause_reason": job.pause_reason,
        "paused_until": optional_instant(job.paused_until),
        "deleted": job.deleted,
        **shown,
    }


def missed_range_row(missed_range: MissedRange) -> dict[str, Any]:
    """Return the row of `gaps`."""
    return {
        "table": "gaps",
        "job_id": missed_range.job_id,
        "start_at": format_instant(missed_range.start),
        "end_at": format_instant(missed_range.end),
        "count": missed_range.count,
        "reason": missed_range.reason,
    }


def term_row(term: Term) -> dict[str, Any]:
    """Return the row of `leaderships`, or of `leases` if the term lasts or nobody took over since."""
    return {
        "table": "leases" if term.ending is None else "leaderships",
        "term": term.term,
        "holder": term.holder,
        "began_at": format_instant(term.began_at),
        "confirmed_at": format_instant(term.confirmed_at),
        "ended_at": optional_instant(term.ended_at),
        "ending": term.ending,
    }


def run_row(run: Run) -> dict[str, Any]:
    """Return the row of `runs`, without arguments and result."""
    body = run_body(run)
    left_out = ("args", "kwargs", "result", "error", "attempts")
    return {"table": "runs", **{name: value for name, value in body.items() if name not in left_out}}


def attempt_row(run: Run, number: int) -> dict[str, Any]:
    """Return the row of `run_attempts`."""
    shown: dict[str, Any] = next((a for a in run_body(run)["attempts"] if a["attempt"] == number), {})
    return {"table": "run_attempts", "run_id": run.run_id, "attempt": number, **shown}


def audit_row(entry: AuditEntry) -> dict[str, Any]:
    """Return the row of `audit_log`."""
    return {"table": "audit_log", **audit_body(entry)}
