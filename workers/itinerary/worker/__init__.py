"""The part of a Celery worker: claims before a task starts, reports when it ends, heartbeats."""
