"""What a task writes about itself: one line a start and one an end.

They outlive the task's process, whoever kills it; only a machine that crashes would lose them. Nothing is synced to
disk: a slot would count as idle while its task waits for the disk behind the line that says it has ended.
"""

import json
import os
import time


def record(event: str, task_id: str) -> None:
    """Append `start` or `end` of this attempt to the file that RECORD_FILE names."""
    line = json.dumps({"event": event, "task_id": task_id, "at": time.time()}) + "\n"
    file = os.open(os.environ["RECORD_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
