"""Jobs as database rows and back: a version is stored as its definition's JSON and parsed when it is read.

Promises that a definition which cannot be read is refused by the job's name or left out, never half read.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

import structlog
from sqlalchemy import ColumnElement, Connection, Select, Text, and_, cast, exists, not_, or_, select, true

from itinerary.protocol.errors import BadValue, BadValues, Conflict
from itinerary.protocol.instants import Instant
from scheduler_service.core.balancing.placements import placed
from scheduler_service.core.calendars.carrying import REACH
from scheduler_service.core.contract.job_json import read_stored_job
from scheduler_service.core.contract.stored_jobs import StoredJobs
from scheduler_service.core.contract.unknown_fields import names
from scheduler_service.core.explain.facts import Version
from scheduler_service.core.model import Job, JobHistory
from scheduler_service.sql.applied_calendars import AppliedCalendars
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.control_tables import job_calendars
from scheduler_service.sql.dialect import dialect_of
from scheduler_service.sql.tables import IS_UNPLANNED, job_versions, jobs

log = structlog.get_logger(__name__)

_READ_AT_ONCE: Final = 5_000
_MOST_REPORTED: Final = 1_000
_REPORTED: Final[set[str]] = set()

_Column: TypeAlias = ColumnElement[str]
_Condition: TypeAlias = ColumnElement[bool]
_V: Final = job_versions.c
VERSION_COLUMNS: Final = (
    _V.definition, _V.created_at, _V.version, _V.paused, _V.pause_reason, _V.paused_until, _V.effective_from,
    _V.deleted, _V.placed_anchor, _V.placed_at, _V.pause_skips,
)  # fmt: skip
JOB_COLUMNS: Final = (*(jobs.c[column.name] for column in VERSION_COLUMNS), jobs.c.source)
# Many definitions are read from their text: most are like one that was read before.
_HISTORY_COLUMNS: Final = (cast(_V.definition, Text), *VERSION_COLUMNS[1:], _V.job_id, jobs.c.planned_version)
_JOB_ID: Final = itemgetter(-2)
_PLANNED: Final = itemgetter(-1)
_IDS: Final = Batch(job_id=Text)


def job_of(row: Sequence[Any], read: Callable[..., Job] = read_stored_job) -> Job:
    """The version, from VERSION_COLUMNS; `read` reads its definition."""
    definition, created_at, version, paused, pause_reason, paused_until, effective_from, deleted, anchor, at = row[:10]
    job = read(
        definition,
        created_at=created_at,
        version=version,
        paused=paused,
        pause_reason=pause_reason,
        paused_until=paused_until,
        # Equal for a job that was never edited; sharing one integer saves memory.
        effective_from=created_at if effective_from == created_at else effective_from,
        deleted=deleted,
        pause_skips=row[10],
    )
    return job if anchor is None else placed(job, anchor, at)


def current_job_of(row: Sequence[Any]) -> Job:
    """The current job, from JOB_COLUMNS."""
    return replace(job_of(row), source=row[11])


def named_job_of(row: Sequence[Any]) -> Job:
    """The current job, for a request that named it; Conflict if this program rejects its stored definition."""
    try:
        return current_job_of(row)
    except (BadValue, BadValues) as error:
        refused = f"job {row[0].get('job_id')} is stored in a way that this program refuses, as of a newer one"
        raise Conflict(f"{refused}: {error}", "stored-by-newer") from error


def listed_job_of(row: Sequence[Any]) -> Job | None:
    """The current job, for a list; None if a newer program created it, so that it does not hide the others."""
    try:
        return named_job_of(row)
    except Conflict as error:
        log.warning("job left out of a list", error=str(error))
        return None


def version_of(job_id: str, row: Sequence[Any]) -> Version | None:
    """A version and its author, from VERSION_COLUMNS and the actor; None if a newer program created it."""
    try:
        return Version(job_of(row), row[-1])
    except (BadValue, BadValues) as error:
        log.error("version left out, its stored definition is refused", job_id=job_id, error=str(error))
        return None


def search_columns(job: Job) -> dict[str, str]:
    """The texts that `list` searches: each tag as JSON on its own line, and the text in one case."""
    return {
        "tags": "".join(f"\n{tag_line(tag)}\n" for tag in job.tags),
        "search_text": "\n".join((job.job_id, job.title, job.task)).casefold(),
    }


def tag_line(tag: str) -> str:
    """A tag without line breaks, so that a whole line is a whole tag."""
    return json.dumps(tag)


def histories(
    connection: Connection,
    since: Instant | None,
    job_ids: Sequence[str] | None = None,
    refused: set[str] | None = None,
) -> list[JobHistory]:
    """The versions of these jobs, or of all, that hold at or after `since`, and from the last planned one on.

    Calendars are applied: a version is cut at the versions of those that it names.
    Of all jobs, those deleted before `since`, and planned as deleted, are left out. `refused` collects the ids of jobs
    that this program cannot read.
    """
    by_calendars, read = AppliedCalendars(connection, since), StoredJobs().read
    if job_ids is None:
        by_calendars.read_all()
        return _all_grouped(connection, since, by_calendars, read, refused)
    named = _versions(since).where(_V.job_id.in_(select(_IDS.rows(dialect_of(connection)).c.job_id)))
    found: list[JobHistory] = []
    for chunk in _IDS.chunks([(job_id,) for job_id in dict.fromkeys(job_ids)]):
        found += by_calendars.applied(_grouped(connection.execute(named, chunk), read, refused))
    return found


def unplanned(connection: Connection, limit: int) -> list[str]:
    """Ids of jobs whose newest version is not planned."""
    return list(connection.execute(select(jobs.c.job_id).where(IS_UNPLANNED).limit(limit)).scalars())


def _versions(since: Instant | None, within: Callable[[_Column], _Condition] = lambda job_id: true()) -> Select[Any]:
    """Select what `histories` reads, of jobs `within` bounds.

    Each table gets the bounds, since PostgreSQL scans the whole of one that has none, again for every page.
    """
    following = job_versions.alias("following")
    is_next = and_(following.c.job_id == _V.job_id, following.c.version == _V.version + 1)
    versions = (
        select(*_HISTORY_COLUMNS)
        .join(jobs, and_(jobs.c.job_id == _V.job_id, within(jobs.c.job_id)))
        .outerjoin(following, and_(is_next, within(following.c.job_id)))
        .where(within(_V.job_id))
        .order_by(_V.job_id, _V.version)
    )
    if since is None:
        return versions
    ends_at = following.c.effective_from
    # What a version that has ended moved over `since`, or fired for a later day, the next one must know.
    moves_days = exists().where(job_calendars.c.job_id == _V.job_id, job_calendars.c.by_days)
    may_reach = and_(ends_at > since - REACH, moves_days)
    return versions.where(or_(ends_at.is_(None), ends_at > since, _V.version >= jobs.c.planned_version, may_reach))


def _gone_before(since: Instant) -> ColumnElement[bool]:
    return and_(jobs.c.deleted, jobs.c.effective_from <= since, not_(IS_UNPLANNED))


def _all_grouped(
    connection: Connection,
    since: Instant | None,
    by_calendars: AppliedCalendars,
    read: Callable[..., Job],
    refused: set[str] | None,
) -> list[JobHistory]:
    """Group in parts, since the rows of all jobs at once take more memory than the jobs.

    Jobs edited or created between two parts are unplanned, so the job watcher finds them.
    """
    found: list[JobHistory] = []
    after = ""
    ids = select(jobs.c.job_id).order_by(jobs.c.job_id).limit(_READ_AT_ONCE)
    while part := connection.execute(ids.where(jobs.c.job_id > after)).scalars().all():
        if after:
            log.info("reading jobs", count=len(found))
        asked = _versions(since, partial(_between, part[0], part[-1]))
        rows = connection.execute(asked if since is None else asked.where(not_(_gone_before(since))))
        found += by_calendars.applied(_grouped(rows, read, refused))
        after = part[-1]
    return found


def _between(first: str, last: str, job_id: _Column) -> _Condition:
    return and_(job_id >= first, job_id <= last)


def _grouped(rows: Iterable[Any], read: Callable[..., Job], refused: set[str] | None = None) -> list[JobHistory]:
    """Group rows into histories; remove the ids of jobs that were read from `refused`, and add those that were not."""
    found: list[JobHistory] = []
    refused = set() if refused is None else refused
    for job_id, of_job in groupby(rows, key=_JOB_ID):
        versions = list(of_job)
        try:
            history = JobHistory(tuple(job_of(row, read) for row in versions), _PLANNED(versions[-1]))
        except (BadValue, BadValues) as error:  # a single unreadable job must not stop the others
            if job_id not in refused:
                log.error("job left out, its stored definition is refused", job_id=job_id, error=str(error))
            refused.add(job_id)
            continue
        refused.discard(job_id)
        found.append(history)
        if history.current.unknown:
            _log_once(history.current.unknown, job_id)
    return found


def _log_once(unknown: Mapping[str, Any], job_id: str) -> None:
    """Log each field that only a newer release knows, once in the life of this process."""
    for field in names(unknown):
        if field not in _REPORTED and len(_REPORTED) < _MOST_REPORTED:
            _REPORTED.add(field)
            log.warning("jobs have a field of a newer release, kept and without effect", field=field, job_id=job_id)
