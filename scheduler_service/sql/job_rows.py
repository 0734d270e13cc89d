"""Jobs as database rows and back: a version is stored as its definition's JSON and parsed when it is read.

Promises that a definition which cannot be read is refused by the job's name or left out, never half read.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
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
from scheduler_service.sql.applied_calendars import AppliedCalendars, distinct
from scheduler_service.sql.batch import Batch
from scheduler_service.sql.control_tables import job_calendars
from scheduler_service.sql.dialect import dialect_of
from scheduler_service.sql.job_pages import JobGroup, pages
from scheduler_service.sql.tables import IS_UNPLANNED, job_versions, jobs

log = structlog.get_logger(__name__)

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
LISTED_COLUMNS: Final = (cast(jobs.c.definition, Text).label("definition"), *JOB_COLUMNS[1:], jobs.c.job_id)
_HISTORY_COLUMNS: Final = (cast(_V.definition, Text), *VERSION_COLUMNS[1:], _V.job_id, jobs.c.planned_version)
_JOB_ID: Final = itemgetter(-2)
_PLANNED: Final = itemgetter(-1)
_ID_OF: Final = attrgetter("job_id")
_IDS: Final = Batch(job_id=Text)


def job_of(row: Sequence[Any], read: Callable[..., Job] = read_stored_job) -> Job:
    """The version, from VERSION_COLUMNS; `read` reads its definition."""
    created_at, effective_from, stored = _beside(row)
    job = read(row[0], created_at=created_at, effective_from=effective_from, **stored)
    return job if row[8] is None else placed(job, row[8], row[9])


def _beside(row: Sequence[Any]) -> tuple[Instant, Instant, dict[str, Any]]:
    """The instants of creation and effect of a version, and what else is stored beside its definition and its place."""
    _, created_at, version, paused, pause_reason, paused_until, effective_from, deleted, _, _, pause_skips, *_ = row
    if effective_from == created_at:  # as of a job that was never edited; sharing one integer saves memory
        effective_from = created_at
    stored = {
        "version": version,
        "paused": paused,
        "pause_reason": pause_reason,
        "paused_until": paused_until,
        "deleted": deleted,
        "pause_skips": pause_skips,
    }
    return created_at, effective_from, stored


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


def listed_jobs(rows: Iterable[Any]) -> list[Job]:
    """The current jobs of a page, from LISTED_COLUMNS; those that a newer program created are left out."""
    read = StoredJobs().read
    found: list[Job] = []
    for row in rows:
        try:
            job = job_of(row, read)
        except (BadValue, BadValues) as error:
            log.warning("job left out of a list", job_id=row.job_id, error=str(error))
            continue
        found.append(job if row.source is None else replace(job, source=row.source))
    return found


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
    stored: StoredJobs | None = None,
) -> list[JobHistory]:
    """The versions of these jobs, or of all, that hold at or after `since`, and from the last planned one on.

    Calendars are applied: a version is cut at the versions of those that it names.
    Of all jobs, those deleted before `since`, and planned as deleted, are left out. `refused` collects the ids of jobs
    that this program cannot read. `stored` knows the definitions of the pages before this one.
    """
    by_calendars, stored = AppliedCalendars(connection, since), stored or StoredJobs()
    refused = set() if refused is None else refused
    if job_ids is None:
        by_calendars.read_all()
        return _all(connection, since, by_calendars, stored, refused)
    return by_calendars.applied(_named(connection, _versions(since), dict.fromkeys(job_ids), stored, refused))


def unplanned(connection: Connection, limit: int) -> list[str]:
    """Ids of jobs whose newest version is not planned."""
    return list(connection.execute(select(jobs.c.job_id).where(IS_UNPLANNED).limit(limit)).scalars())


def _versions(since: Instant | None, within: Callable[[_Column], _Condition] = lambda job_id: true()) -> Select[Any]:
    """Select what `histories` reads, of jobs `within` bounds.

    Each table gets the bounds, since PostgreSQL scans the whole of one that has none, again for every page.
    """
    versions = (
        select(*_HISTORY_COLUMNS)
        .join(jobs, and_(jobs.c.job_id == _V.job_id, within(jobs.c.job_id)))
        .where(within(_V.job_id))
        .order_by(_V.job_id, _V.version)
    )
    if since is None:
        return versions
    following = job_versions.alias("following")
    # What a version that has ended moved over `since`, or fired for a later day, the next one must know.
    moves_days = exists().where(job_calendars.c.job_id == following.c.job_id, job_calendars.c.by_days)
    has_ended = exists().where(
        following.c.job_id == _V.job_id,
        within(following.c.job_id),
        following.c.version == _V.version + 1,
        following.c.effective_from <= since,
        not_(and_(following.c.effective_from > since - REACH, moves_days)),
    )
    # Nearly all versions are the newest ones: for those nothing else is read.
    return versions.where(or_(_V.version >= jobs.c.planned_version, not_(has_ended)))


def _all(
    connection: Connection,
    since: Instant | None,
    by_calendars: AppliedCalendars,
    stored: StoredJobs,
    refused: set[str],
) -> list[JobHistory]:
    """Read all jobs in parts, since the rows of all at once take more memory than the jobs.

    Jobs edited or created between two parts are unplanned, so the job watcher finds them.
    """
    found: list[JobHistory] = []
    for page in pages(connection, since):
        if found:
            log.info("reading jobs", count=len(found))
        part = [history for group in page.groups for history in _of_group(group, stored, refused)]
        if page.others:
            within = partial(_between, min(page.others), max(page.others))
            part += _named(connection, _versions(since, within), page.others, stored, refused)
        part.sort(key=_ID_OF)
        found += by_calendars.applied(part)
    return found


def _between(first: str, last: str, job_id: _Column) -> _Condition:
    return and_(job_id >= first, job_id <= last)


def _named(
    connection: Connection, versions: Select[Any], job_ids: Iterable[str], stored: StoredJobs, refused: set[str]
) -> list[JobHistory]:
    named = versions.where(_V.job_id.in_(select(_IDS.rows(dialect_of(connection)).c.job_id)))
    found: list[JobHistory] = []
    for chunk in _IDS.chunks([(job_id,) for job_id in job_ids]):
        found += _grouped(connection.execute(named, chunk), stored, refused)
    return found


def _of_group(group: JobGroup, stored: StoredJobs, refused: set[str]) -> list[JobHistory]:
    read, planned_version, beside = stored.history, group.planned_version, group.beside
    found: list[JobHistory] = []
    for job_id, text, created_at, effective_from in zip(*group[2:], strict=True):
        # As of a job that was never edited; sharing one integer saves memory.
        since = created_at if effective_from == created_at else effective_from
        try:
            found.append(read(text, planned_version, created_at, since, beside))
        except (BadValue, BadValues) as error:
            _refuse(job_id, error, refused)
    _note_read(found, refused)
    return found


def _history_of(versions: Sequence[Any], stored: StoredJobs) -> JobHistory:
    newest = versions[-1]
    if len(versions) == 1 and newest[8] is None:
        return stored.history(newest[0], _PLANNED(newest), *_beside(newest))
    return JobHistory(tuple(job_of(row, stored.read) for row in versions), _PLANNED(newest))


def _grouped(rows: Iterable[Any], stored: StoredJobs, refused: set[str]) -> list[JobHistory]:
    """Group rows into histories."""
    found: list[JobHistory] = []
    for job_id, of_job in groupby(rows, key=_JOB_ID):
        try:
            found.append(_history_of([*of_job], stored))
        except (BadValue, BadValues) as error:
            _refuse(job_id, error, refused)
    _note_read(found, refused)
    return found


def _refuse(job_id: str, error: Exception, refused: set[str]) -> None:
    """Leave out a job: a single one that is unreadable must not stop the others."""
    if job_id not in refused:
        log.error("job left out, its stored definition is refused", job_id=job_id, error=str(error))
    refused.add(job_id)


def _note_read(found: Sequence[JobHistory], refused: set[str]) -> None:
    if refused:
        refused.difference_update(history.job_id for history in found)
    for alike in distinct(found):
        if unknown := alike[-1].unknown:
            _log_once(unknown, alike[-1].job_id)


def _log_once(unknown: Mapping[str, Any], job_id: str) -> None:
    """Log each field that only a newer release knows, once in the life of this process."""
    for field in names(unknown):
        if field not in _REPORTED and len(_REPORTED) < _MOST_REPORTED:
            _REPORTED.add(field)
            log.warning("jobs have a field of a newer release, kept and without effect", field=field, job_id=job_id)
