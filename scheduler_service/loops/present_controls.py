"""The controls that a new leader begins with: all edits up to one time, by which it judges what was missed before."""

from dataclasses import replace

from scheduler_service.core.controls import Controls
from scheduler_service.core.leader.frozen import needed_since
from scheduler_service.core.model import Cursor
from scheduler_service.ports.stores import UNKNOWN, LeaderStore


def present_controls(store: LeaderStore, cursor: Cursor) -> Controls:
    """Read the pauses, limits and freezes, again where an edit came between."""
    since = needed_since(cursor.materialised_until, cursor.judged_until)
    while True:
        controls = store.controls(UNKNOWN, since) or Controls()
        at = store.unchanged_at(controls.version)
        if at is not None:
            return replace(controls, read_at=at)
