"""A user's Celery app: loaded by its name, and read. Needs Celery; opens no connection."""
