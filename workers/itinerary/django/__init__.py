"""Itinerary in a Django project: add "itinerary.django" to INSTALLED_APPS.

Owns the settings under `ITINERARY`, `manage.py itinerary`, the admin's pages of jobs and runs, and enqueueing by the
project's transactions. Importing it needs Django's settings only when something is used.
"""

from itinerary.django.enqueueing import client, enqueue_on_commit

__all__ = ["client", "enqueue_on_commit"]
