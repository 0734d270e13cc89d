"""Builds the thread that stores the logs of attempts, from the settings."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

from scheduler_service.broker.logs import RedisSentLogs
from scheduler_service.config.settings import Settings
from scheduler_service.loops.log_recorder import LogRecorder
from scheduler_service.sql.attempt_logs import SqlLogStore
from scheduler_service.sql.database import Database
from scheduler_service.sql.lease import SqlLeaseStore

_STOP_SECONDS: Final = 2.0


@contextmanager
def logs_recorded(settings: Settings, database: Database, holder: str) -> Iterator[None]:
    """Store logs while `holder` leads, within the block; with connections of its own."""
    beside = database.beside()
    with closing(RedisSentLogs(settings.redis_url, settings.key_prefix)) as sent:
        recorder = LogRecorder(SqlLeaseStore(beside), sent, SqlLogStore(beside), holder)
        recorder.start()
        try:
            yield
        finally:
            recorder.stop(_STOP_SECONDS)
