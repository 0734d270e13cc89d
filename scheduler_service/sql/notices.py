"""Notices written together with the facts that they report, in the same transaction.

Promises: a committed fact has its notice committed; a notice that cannot be written is logged and never keeps the fact
out. If no topic is wanted, nothing is read, computed or written.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import structlog
from sqlalchemy import BigInteger, Boolean, Connection, Select, Text, case, select, true

from itinerary.protocol.errors import RowRefused
from scheduler_service.core.leader.commands import Transition
from scheduler_service.core.model import MissedRange
from scheduler_service.core.notifications.notices import (
    Named,
    Notice,
    Topic,
    ended_notices,
    missed_range_notices,
    to_report,
)
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.column_types import InstantColumn, Payload, dump_json
from scheduler_service.sql.database import savepoint
from scheduler_service.sql.dialect import Dialect, dialect_of
from scheduler_service.sql.notice_tables import notices
from scheduler_service.sql.tables import runs

log = structlog.get_logger(__name__)

_NOTICES: Final = Batch(
    topic=Text, subject=Text, count=BigInteger, first_at=InstantColumn, last_at=InstantColumn, said=Payload,
    holds=Boolean,
)  # fmt: skip
_IDS: Final = Batch(run_id=Text)
_NAMED: Final = (runs.c.run_id, runs.c.job_id, runs.c.task, runs.c.queue)


class FactNotices:
    """Notices about the leader's own writes, limited to the wanted topics."""

    def __init__(self, topics: frozenset[Topic] = frozenset()) -> None:
        self._topics = topics

    @property
    def of_missed_ranges(self) -> bool:
        """Whether missed ranges are reported at all."""
        return Topic.RUN_MISSED in self._topics

    def ended(self, connection: Connection, transitions: Sequence[Transition]) -> None:
        """Note the runs that failed finally or were missed, from transitions that were applied."""
        ended = to_report(transitions, self._topics) if self._topics else []
        if ended:
            runs_of = named_runs(connection, [change.run_id for change in ended])
            self._add(connection, ended_notices(ended, runs_of))

    def missed_ranges(self, connection: Connection, new: Sequence[MissedRange]) -> None:
        """Note occurrences that will not run."""
        if new and self.of_missed_ranges:
            self._add(connection, missed_range_notices(new))

    def leader_lost(self, connection: Connection, notice: Notice) -> None:
        """Note a term that its holder did not end itself."""
        if notice.topic in self._topics:
            self._add(connection, [notice])

    def _add(self, connection: Connection, found: Sequence[Notice]) -> None:
        try:
            with savepoint(connection):
                add(connection, found)
        except RowRefused as refused:
            log.error("notices set aside, a row was refused", count=len(found), reason=str(refused))


def named_runs(connection: Connection, run_ids: Iterable[str]) -> dict[str, Named]:
    """The fields by which notices name these runs."""
    found: dict[str, Named] = {}
    for chunk in _IDS.chunks([(run_id,) for run_id in dict.fromkeys(run_ids)]):
        found |= {row[0]: Named(*row) for row in connection.execute(_by_id(dialect_of(connection)), chunk)}
    return found


def add(connection: Connection, found: Sequence[Notice], *, holds: bool = False) -> None:
    """Add these notices to the counts; with `holds` they are conditions.

    A condition that already held is not reported again; one that returns before its report is reported as it is now.
    """
    for chunk in _NOTICES.chunks(_rows(found, holds)):
        connection.execute(_add(dialect_of(connection), holds), chunk)


def _rows(found: Sequence[Notice], holds: bool) -> Iterable[tuple[Any, ...]]:
    for n in found:  # by their key, so that two writers never deadlock
        yield n.topic.value, n.subject, n.count, n.first_at, n.last_at, dump_json(_plain(n.facts)), holds


def _plain(said: Mapping[str, Any]) -> dict[str, Any]:
    return dict(said)


@cache
def _by_id(dialect: Dialect) -> Select[Any]:
    batch = _IDS.rows(dialect)
    return select(*_NAMED).join(batch, runs.c.run_id == batch.c.run_id)


@cache
def _add(dialect: Dialect, holds: bool) -> Any:
    batch = _NOTICES.rows(dialect)
    insert = dialect.insert(notices).from_select(list(batch.c.keys()), select(*batch.c).where(true()))
    new = insert.excluded
    unreported = notices.c["count"]
    return insert.on_conflict_do_update(
        index_elements=[notices.c.topic, notices.c.subject],
        set_={
            "count": new["count"] if holds else unreported + new["count"],
            "first_at": case((unreported > 0, notices.c.first_at), else_=new.first_at),
            "last_at": new.last_at,
            "said": new.said,
            "holds": new.holds,
        },
        where=notices.c.holds.is_(False) if holds else None,
    )
