"""The identifiers: job ids, run ids, Celery task ids. Pure functions of what they identify."""

import re
from typing import Final, TypeGuard

from itinerary.protocol.errors import BadValue, MalformedEntry
from itinerary.protocol.instants import Instant, format_instant

JOB_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,299}")
QUEUE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
TASK_RULE: Final = (
    "give a Celery task name such as billing.close_month: 255 printable characters at most, no blank at either end"
)
_LONGEST_TASK: Final = 255
JOB_ID_RULE: Final = "start with a letter or digit, then letters, digits, '.', '_' or '-', 128 at most"


def is_task_name(name: object) -> TypeGuard[str]:
    """Whether a Celery task may have this name here: any letters, blanks and slashes too, but nothing invisible."""
    return isinstance(name, str) and 0 < len(name) <= _LONGEST_TASK and name.isprintable() and name == name.strip()


def check_job_id(job_id: object, field: str = "job_id") -> str:
    """Return the job id, or raise BadValue saying which characters an id may have."""
    if not isinstance(job_id, str) or not JOB_ID.fullmatch(job_id):
        raise BadValue(field, job_id, JOB_ID_RULE)
    return job_id


def occurrence_run_id(job_id: str, scheduled_at: Instant) -> str:
    """`billing.close_2026-12-01T01:00:00Z`: the same for every process that computes this occurrence."""
    return f"{job_id}_{format_instant(scheduled_at)}"


def manual_run_id(job_id: str, uuid7: str) -> str:
    """The id of a run that was triggered manually."""
    return f"{job_id}_manual-{uuid7}"


def adhoc_run_id(uuid7: str) -> str:
    """The id of a one-off run without a job."""
    return f"adhoc_{uuid7}"


def job_named_by(run_id: str) -> str:
    """The job id with which a run's id begins; "adhoc" for a run without a job."""
    return run_id.rpartition("_")[0]


def task_id(run_id: str, attempt: int) -> str:
    """The Celery task id of one attempt."""
    return f"{run_id}~{attempt}"


def split_task_id(text: object) -> tuple[str, int]:
    """The run id and attempt of one of our task ids; anything else raises MalformedEntry."""
    if isinstance(text, str) and len(text) <= 300:
        run_id, tilde, attempt = text.rpartition("~")
        if tilde and run_id and attempt.isascii() and attempt.isdigit() and 0 < len(attempt) < 9:
            return run_id, int(attempt)
    raise MalformedEntry(f"task_id {str(text)[:80]!r} is not <run_id>~<attempt>")
