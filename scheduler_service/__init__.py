"""Itinerary: the cron service for Celery that never loses a run, never starts one twice, and can say why."""
