"""An app's own beat schedule moved in, by way of its JSON as between two environments."""

import json

from celery import Celery

from itinerary.apps.beat_schedule import export_beat
from itinerary.protocol.instants import Instant
from scheduler_service.migrating.beat_entry import ConvertedEntry
from scheduler_service.migrating.beat_export import ExportedApp, parse_export
from scheduler_service.migrating.beat_moving import move_entries


def exported(app: Celery) -> ExportedApp:
    """The app as the service reads it."""
    return parse_export(json.dumps(export_beat(app, "shop:app")), "a test")


def convert_beat(app: Celery, now: Instant) -> list[ConvertedEntry]:
    """Every entry of the app's own schedule, moved."""
    found = exported(app)
    return move_entries(found.entries, found.app, now)
