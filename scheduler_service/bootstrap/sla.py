"""Builds the thread that judges SLAs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from scheduler_service.config.settings import Settings
from scheduler_service.loops.sla_judge import SlaJudge
from scheduler_service.ports.sla import JudgeMeter
from scheduler_service.sql.database import Database
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.monitors import SqlMonitorStore
from scheduler_service.sql.sla import SqlSlaStore

_STOP_SECONDS: Final = 2.0


@contextmanager
def slas_judged(settings: Settings, database: Database, holder: str, meter: JudgeMeter) -> Iterator[None]:
    """Judge SLAs while `holder` leads, within the block."""
    beside = database.beside()
    monitors = SqlMonitorStore(beside, settings.notify_topics)
    judge = SlaJudge(SqlLeaseStore(beside), SqlSlaStore(beside, settings.notify_topics), monitors, meter, holder)
    judge.start()
    try:
        yield
    finally:
        judge.stop(_STOP_SECONDS)
