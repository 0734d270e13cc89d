"""The names on the wire: Redis keys, message headers, stream fields. Scheduler and workers both read them here.

Light on purpose: workers import this module inside other people's applications.
"""

import json
from typing import Any, Final

from scheduler_service.core.instants import Instant, format_instant

INBOX: Final = "itinerary:inbox"
INBOX_DEAD: Final = "itinerary:inbox:dead"
ENTRY_VERSION: Final = "1"

HEADER_RUN_ID: Final = "itinerary_run_id"
HEADER_JOB_ID: Final = "itinerary_job_id"
HEADER_ATTEMPT: Final = "itinerary_attempt"
HEADER_SCHEDULED_AT: Final = "itinerary_scheduled_at"
HEADER_DUE_AT: Final = "itinerary_due_at"
HEADER_TERM: Final = "itinerary_term"
HEADER_SEQ: Final = "itinerary_seq"


def claim_key(task_id: str) -> str:
    """Holds the token of whoever claimed this attempt."""
    return f"itinerary:claim:{task_id}"


def cancel_key(task_id: str) -> str:
    """Present while this attempt is not wanted any more: refused at the claim, seen by `cancelled()`."""
    return f"itinerary:cancel:{task_id}"


def result_key(task_id: str) -> str:
    """Holds the terminal report of this attempt until the leader has committed it."""
    return f"itinerary:result:{task_id}"


def reply_key(name: str) -> str:
    """The list on which one asker waits for the leader's answer."""
    return f"itinerary:reply:{name}"


def entry(kind: str, at: Instant, body: dict[str, Any]) -> dict[str, str]:
    """The fields of one inbox entry; `body` must be plain JSON values."""
    return {
        "v": ENTRY_VERSION,
        "type": kind,
        "at": format_instant(at),
        "body": json.dumps(body, ensure_ascii=True, separators=(",", ":"), allow_nan=False),
    }
