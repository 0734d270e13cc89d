"""Moving in: what runs elsewhere (Celery beat, crontab files) said as jobs, with every difference of meaning.

Owns the translations. Never changes where it reads, and nothing here talks to the service.
"""
