"""What a task writes about itself: one line a start and one an end, synced to disk before it goes on."""

import json
import os
import time


def record(event: str, task_id: str) -> None:
    """Append `start` or `end` of this attempt to the file that RECORD_FILE names."""
    line = json.dumps({"event": event, "task_id": task_id, "at": time.time()}) + "\n"
    file = os.open(os.environ["RECORD_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
        os.fsync(file)
    finally:
        os.close(file)
