"""The columns of the table `runs` that an app fills by `enqueue_in`.

Frozen: apps keep their release of this package while the service and its schema are upgraded. A migration may add
columns that can stay empty; it never renames, drops or newly requires one of these.
"""

from typing import Final

ENQUEUED: Final = (
    "run_id", "kind", "task", "args", "kwargs", "queue", "priority", "scheduled_at", "due_at", "retry", "timeout",
    "created_at", "idempotency_key", "request_hash",
)  # fmt: skip
# Filled only where a run asks for it, since an older schema has none: 0020 and 0009 are the first that do.
START_BY: Final = "start_by"
TRACEPARENT: Final = "traceparent"
