"""Builds the thread that sends pings."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from scheduler_service.config.settings import Settings
from scheduler_service.loops.pinger import Pinger
from scheduler_service.notify.ping_sender import sender_of
from scheduler_service.ports.pings import PingMeter
from scheduler_service.sql.database import Database
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.pings import SqlPingStore

_STOP_SECONDS: Final = 2.0


@contextmanager
def pings_sent(settings: Settings, database: Database, holder: str, meter: PingMeter) -> Iterator[None]:
    """Send pings while `holder` leads, within the block."""
    beside = database.beside()
    send = sender_of(settings.notify_allow_private)
    pinger = Pinger(SqlLeaseStore(beside), SqlPingStore(beside), send, meter, holder)
    pinger.start()
    try:
        yield
    finally:
        pinger.stop(_STOP_SECONDS)
