"""Which current jobs name something that users define: rows beside the jobs, written when a job is saved.

Promises that a thing which a job names is found without reading definitions. A job that names nothing costs no
statement.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Column, Connection, Table, Text, delete, insert, select

from scheduler_service.sql.batch import Batch
from scheduler_service.sql.control_tables import calendars, job_calendars, job_limits, limits
from scheduler_service.sql.dialect import dialect_of

_IDS: Final = Batch(job_id=Text)


@dataclass(frozen=True, slots=True)
class NamedByJobs:
    """A table of pairs: `name` of what is defined, whose own key is `defined`, and `job_id`."""

    table: Table
    name: Column[Any]
    defined: Column[Any]

    def write(
        self,
        connection: Connection,
        named: Mapping[str, Collection[str]],
        beside: Callable[[str, str], Mapping[str, Any]] = lambda _job_id, _name: {},
    ) -> None:
        """Replace what these jobs name; a job that named nothing and names nothing need not be given.

        `beside` has the other columns of the row of a job and a name.
        """
        named_by = select(_IDS.rows(dialect_of(connection)).c.job_id)
        for chunk in _IDS.chunks([(job_id,) for job_id in sorted(named)]):
            connection.execute(delete(self.table).where(self.table.c.job_id.in_(named_by)), chunk)
        rows = [
            {self.name.name: name, "job_id": job_id, **beside(job_id, name)}
            for job_id in sorted(named)
            for name in sorted({*named[job_id]})
        ]
        if rows:
            connection.execute(insert(self.table), rows)

    def jobs_alone(self, connection: Connection, name: str, most: int) -> Sequence[str]:
        """The same as `jobs`, once no job is being saved that names it, and none can be until the end."""
        connection.execute(select(self.defined).where(self.defined == name).with_for_update())
        return self.jobs(connection, name, most)

    def jobs(self, connection: Connection, name: str, most: int, after: str = "") -> Sequence[str]:
        """The first jobs by id, behind `after`, that name it, at most `most`."""
        job_id = self.table.c.job_id
        asked = select(job_id).where(self.name == name, job_id > after).order_by(job_id)
        return connection.execute(asked.limit(most)).scalars().all()


LIMITS_NAMED: Final = NamedByJobs(job_limits, job_limits.c.limit_name, limits.c.name)
CALENDARS_NAMED: Final = NamedByJobs(job_calendars, job_calendars.c.calendar_id, calendars.c.calendar_id)
