"""Facts of a run or an occurrence, as a test makes them, and the explanation that follows from them."""

from dataclasses import replace
from typing import Any

from itinerary.protocol.instants import SECOND, Instant, format_instant, parse_instant
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.explain.explanation import Explanation, Verdict, explanation_body
from scheduler_service.core.explain.facts import Facts, Term, Version
from scheduler_service.core.explain.job import explain_occurrence
from scheduler_service.core.explain.run import explain_run
from scheduler_service.core.model import Run, RunKind
from scheduler_service.core.run_state import RunState

MADE = parse_instant("2026-11-27T00:00:00Z")
AT = parse_instant("2026-11-27T10:17:00Z")
NOW = parse_instant("2026-11-27T12:00:00Z")
LEADING = Term(3, "leader-a", MADE, NOW, None, None)
WORKER = {"name": "celery@a", "alive": True, "queues": ["default"]}


def version(number: int = 1, since: Instant = MADE, actor: str | None = "ann", **fields: Any) -> Version:
    body: dict[str, Any] = {"job_id": "a.job", "task": "t", "schedule": {"kind": "hourly", "minute": 17}}
    state = {
        name: fields.pop(name)
        for name in ("paused", "pause_reason", "paused_until", "pause_skips", "deleted")
        if name in fields
    }
    job, _ = read_job({**body, **fields}, created_at=MADE)
    return Version(replace(job, version=number, effective_from=since, **state), actor)


def run(state: RunState = RunState.SCHEDULED, **fields: Any) -> Run:
    known: dict[str, Any] = {
        "run_id": f"a.job_{format_instant(AT)}", "kind": RunKind.OCCURRENCE, "job_id": "a.job", "job_version": 1,
        "task": "t", "args": [], "kwargs": {}, "queue": "default", "priority": 5, "retry_of": None,
        "scheduled_at": AT, "due_at": AT, "state": state, "attempt": 1, "retry": RetryPolicy(), "timeout": None,
        "reason": None, "cancel_requested_at": None, "pending_at": None, "published_at": None, "started_at": None,
        "finished_at": None, "worker": None, "term": 3, "result": None, "error": None,
    }  # fmt: skip
    return Run(**{**known, **fields})


def facts(*versions: Version, **fields: Any) -> Facts:
    return replace(Facts(NOW, NOW + 10 * SECOND, versions or (version(),), terms=(LEADING,)), **fields)


def asked(known: Facts, at: Instant = AT) -> Explanation:
    return explain_occurrence("a.job", at, known)


def words(explained: Explanation) -> str:
    text: str = explanation_body(explained)["text"]
    return text


def explained_now(of: Run, **fields: Any) -> tuple[Verdict, str]:
    explained = explain_run(of, facts(**fields))
    return explained.verdict, words(explained)
