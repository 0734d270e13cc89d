"""The limits that jobs name, judged and recorded in the transaction that saves a job.

Promises that a job is not saved with a limit that is deleted meanwhile. Saving holds the limit's row shared; an edit
that needs the limit unused holds it alone and reads these rows then. A job that names no limit costs no statement.
"""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, Select, select

from scheduler_service.core.contract.limit_uses import limits_named, refuse_limits
from scheduler_service.core.model import Job
from scheduler_service.sql.control_tables import limits
from scheduler_service.sql.named_by_jobs import LIMITS_NAMED


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
        LIMITS_NAMED.write(connection, {job.job_id: [limit.name for limit in limits_named(job)] for _, job in changed})


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
