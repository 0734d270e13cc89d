"""Freezes of the past, many at once: the port keeps a day's number of them small."""

from sqlalchemy import insert

from itinerary.protocol.instants import HOUR, SECOND, Instant
from scheduler_service.sql.control_tables import freezes
from tests.support.store_bed import StoreBed


def fill_with_past(bed: StoreBed, number: int, ended_at: Instant) -> None:
    """Freezes of an hour each that ended one second after the other, the last one at `ended_at`."""
    assert bed.database is not None
    row = {"scope": {"all": True}, "during": "hold", "reason": "past", "created_by": "olga", "ended_by": "olga"}
    ends = [ended_at - back * SECOND for back in reversed(range(number))]
    rows = [row | {"starts_at": at - HOUR, "created_at": at - HOUR, "ended_at": at, "ends_at": at} for at in ends]
    with bed.database.write() as connection:
        connection.execute(insert(freezes), rows)
