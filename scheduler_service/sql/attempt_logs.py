"""LogStore in SQL: the logs of attempts, compressed, each deleted with its run."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import select

from itinerary.protocol.attempt_logs import Tail, unpacked
from scheduler_service.ports.logs import LogStore, SentLog
from scheduler_service.sql.database import Database, again_when_busy
from scheduler_service.sql.record_tables import attempt_logs
from scheduler_service.sql.tables import runs

_L: Final = attempt_logs.c


class SqlLogStore(LogStore):
    """LogStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @again_when_busy
    def keep(self, logs: Sequence[SentLog]) -> None:
        """Lock the runs that are there, in the order of their ids, so that none is deleted meanwhile."""
        wanted = sorted({one.run_id for one in logs})
        there = select(runs.c.run_id).where(runs.c.run_id.in_(wanted)).order_by(runs.c.run_id)
        first = self._database.dialect.insert(attempt_logs).on_conflict_do_nothing()
        with self._database.write() as connection:
            known = set(connection.execute(there.with_for_update(read=True, key_share=True)).scalars())
            rows = [
                {"run_id": one.run_id, "attempt": one.attempt, "end_position": one.end, "body": one.compressed}
                for one in sorted(logs, key=lambda one: (one.run_id, one.attempt))
                if one.run_id in known
            ]
            if rows:
                connection.execute(first, rows)

    def read(self, run_id: str, attempt: int) -> Tail | None:
        asked = select(_L.end_position, _L.body).where(_L.run_id == run_id, _L.attempt == attempt)
        with self._database.read() as connection:
            row = connection.execute(asked).first()
        return None if row is None else Tail(unpacked(row.body), row.end_position)

    def attempts(self, run_id: str) -> Sequence[int]:
        asked = select(_L.attempt).where(_L.run_id == run_id).order_by(_L.attempt)
        with self._database.read() as connection:
            return connection.execute(asked).scalars().all()
