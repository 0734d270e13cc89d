"""The columns of the table `runs` that an app fills through `enqueue_in`.

Frozen: apps keep their release of this package while the service and its schema are upgraded. A migration may add
columns that can stay empty; it never renames or drops one of these, and adds none that must be filled.
"""

from typing import Final

ENQUEUED: Final = (
    "run_id", "kind", "task", "args", "kwargs", "queue", "priority", "scheduled_at", "due_at", "retry", "timeout",
    "created_at", "idempotency_key", "request_hash",
)  # fmt: skip
# Filled only if a run needs it, since an older schema lacks them: migrations 0020, 0033, 0023, 0026 and 0009 add them.
START_BY: Final = "start_by"
END_BY: Final = "end_by"
HEADERS: Final = "headers"
LIMITS: Final = "limits"
LANE: Final = "lane"
TRACEPARENT: Final = "traceparent"
