"""Which current jobs name which limits: rows beside the jobs, written in the transaction that saves a job.

Promises that a job is not saved with a limit that is deleted meanwhile. Saving holds the limit's row shared; an edit
that needs the limit unused holds it alone and reads these rows then. A job that names no limit costs no statement.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from sqlalchemy import Connection, Select, Text, delete, insert, select

from scheduler_service.core.contract.limit_uses import limits_named, refuse_limits
from scheduler_service.core.model import Job
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.control_tables import job_limits, limits
from scheduler_service.sql.dialect import dialect_of

_IDS: Final = Batch(job_id=Text)


def hold_limits(connection: Connection, names: Collection[str]) -> Mapping[str, bool]:
    """Keep these limits from being deleted until the transaction ends; the answer says whether each is per key.

    A limit that does not exist is not in the answer.
    """
    return _per_key(connection, _named(names).with_for_update(read=True, key_share=True)) if names else {}


def known_limits(connection: Connection, names: Collection[str]) -> Mapping[str, bool]:
    """As `hold_limits`, without keeping them: a run passes a limit that is deleted later."""
    return _per_key(connection, _named(names)) if names else {}


def keep_limits(connection: Connection, saved: Sequence[tuple[str, Job, Job | None]]) -> None:
    """Judge and record the limits of jobs that are saved, each with its place in errors and its version before.

    BadValues names those that do not exist, or have or lack keys. A job whose limits stay as they are is not judged.
    """
    changed = _changed(saved)
    if changed:
        refuse_limits(changed, hold_limits(connection, _names(changed)))
        name_limits(connection, {job.job_id: [limit.name for limit in limits_named(job)] for _, job in changed})


def judge_limits(connection: Connection, planned: Sequence[tuple[str, Job, Job | None]]) -> None:
    """As `keep_limits`, for jobs that are only planned: nothing is held or written."""
    changed = _changed(planned)
    refuse_limits(changed, known_limits(connection, _names(changed)))


def _changed(saved: Sequence[tuple[str, Job, Job | None]]) -> list[tuple[str, Job]]:
    return [(place, job) for place, job, before in saved if limits_named(job) != limits_named(before)]


def _names(changed: Sequence[tuple[str, Job]]) -> set[str]:
    return {limit.name for _, job in changed for limit in limits_named(job)}


def _named(names: Collection[str]) -> Select[tuple[str, bool]]:
    return select(limits.c.name, limits.c.per_key).where(limits.c.name.in_(sorted(names))).order_by(limits.c.name)


def _per_key(connection: Connection, asked: Select[tuple[str, bool]]) -> Mapping[str, bool]:
    return {row.name: row.per_key for row in connection.execute(asked)}


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
