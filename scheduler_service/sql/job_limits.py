"""Which current jobs name which limits: rows beside the jobs, written in the transaction that saves a job.

Promises that a job is not saved with a limit that is deleted meanwhile. Saving holds the limit's row shared; an edit
that needs the limit unused holds it alone and reads these rows then. A job that names no limit costs no statement.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from sqlalchemy import Connection, Text, delete, insert, select

from scheduler_service.sql.batch import Batch
from scheduler_service.sql.control_tables import job_limits, limits
from scheduler_service.sql.dialect import dialect_of

_IDS: Final = Batch(job_id=Text)


def hold_limits(connection: Connection, names: Collection[str]) -> Mapping[str, bool]:
    """Keep these limits from being deleted until the transaction ends; the answer says whether each is per key.

    A limit that does not exist is not in the answer.
    """
    if not names:
        return {}
    asked = select(limits.c.name, limits.c.per_key).where(limits.c.name.in_(sorted(names))).order_by(limits.c.name)
    held = asked.with_for_update(read=True, key_share=True)
    return {row.name: row.per_key for row in connection.execute(held)}


def name_limits(connection: Connection, named: Mapping[str, Collection[str]]) -> None:
    """Replace the limits that these jobs name; a job that named none and names none need not be given."""
    named_by = select(_IDS.rows(dialect_of(connection)).c.job_id)
    for chunk in _IDS.chunks([(job_id,) for job_id in sorted(named)]):
        connection.execute(delete(job_limits).where(job_limits.c.job_id.in_(named_by)), chunk)
    rows = [{"limit_name": name, "job_id": job_id} for job_id in sorted(named) for name in sorted({*named[job_id]})]
    if rows:
        connection.execute(insert(job_limits), rows)


def jobs_naming_alone(connection: Connection, name: str, most: int) -> Sequence[str]:
    """The same as `jobs_naming`, once no job is being saved with the limit, and none can be until the end."""
    connection.execute(select(limits.c.name).where(limits.c.name == name).with_for_update())
    return jobs_naming(connection, name, most)


def jobs_naming(connection: Connection, name: str, most: int) -> Sequence[str]:
    """The first jobs by id that name the limit, at most `most`."""
    asked = select(job_limits.c.job_id).where(job_limits.c.limit_name == name).order_by(job_limits.c.job_id)
    return connection.execute(asked.limit(most)).scalars().all()
