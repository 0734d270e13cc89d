"""Pages of all jobs: those of which one version matters, nearly all, from their rows in `jobs` alone.

On PostgreSQL a page is one row for each group of jobs that have the same beside their definitions. A row for each job
would cost its reader more than the judgement of it. Promises that each job is on one page, in the order of ids.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    LargeBinary,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    exists,
    false,
    func,
    literal,
    not_,
    or_,
    select,
)

from itinerary.protocol.instants import Instant, parse_instant
from scheduler_service.core.calendars.carrying import REACH
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.control_tables import job_calendars
from scheduler_service.sql.dialect import Dialect, dialect_of
from scheduler_service.sql.tables import IS_UNPLANNED, jobs

_AT_ONCE: Final = 5_000
_LONGEST: Final = 16_384  # PostgreSQL joins up to 1 GB; payloads of 256 KiB would exceed that
_SEPARATOR: Final = "\x1e"  # in no id, and in no JSON
_EPOCH: Final = parse_instant("2000-01-01T00:00:00Z")  # of what PostgreSQL sends
BESIDE: Final = ("version", "paused", "pause_reason", "paused_until", "deleted", "pause_skips")
_AFTER, _SINCE, _LONG_AGO = (
    bindparam("after", type_=Text),
    bindparam("since", type_=InstantColumn),
    bindparam("long_ago", type_=InstantColumn),
)
_LIMIT: Final = bindparam("limit", type_=BigInteger)
_J: Final = jobs.c


class JobGroup(NamedTuple):
    """Jobs with the same planned version, and the same beside their definitions."""

    planned_version: int
    beside: dict[str, Any]
    job_ids: Sequence[str]
    definitions: Sequence[str]
    created_at: Sequence[Instant]
    effective_from: Sequence[Instant]


class JobPage(NamedTuple):
    """The jobs up to the id `last`; `others` have several versions, a place, or a large definition."""

    groups: list[JobGroup]
    others: Sequence[str]
    last: str


def pages(connection: Connection, since: Instant | None) -> Iterator[JobPage]:
    """Yield all jobs, but those deleted before `since` and planned as deleted."""
    is_postgres = dialect_of(connection) is Dialect.POSTGRESQL
    asked = _grouped(since is not None) if is_postgres else _listed(since is not None)
    values = {} if since is None else {"since": since, "long_ago": since - REACH}
    after = ""
    while rows := connection.execute(asked, {"after": after, "limit": _AT_ONCE, **values}).all():
        page = _of_groups(rows) if is_postgres else _of_jobs(rows)
        yield page
        after = page.last


def _is_gone() -> ColumnElement[bool]:
    return and_(_J.deleted, _J.effective_from <= _SINCE, not_(IS_UNPLANNED))


def _is_alone(since_is_given: bool) -> ColumnElement[bool]:
    """Whether only the newest version matters, by `job_rows`' rule for all, and stands as it is defined."""
    moves_days = exists().where(job_calendars.c.job_id == _J.job_id, job_calendars.c.by_days)
    ended = and_(_J.effective_from <= _SINCE, or_(_J.effective_from <= _LONG_AGO, not_(moves_days)))
    only = or_(_J.version == 1, and_(not_(IS_UNPLANNED), ended if since_is_given else false()))
    return and_(_J.placed_anchor.is_(None), only)


@cache
def _listed(since_is_given: bool) -> Select[Any]:
    beside = (_J[name] for name in BESIDE)
    found = select(
        _J.job_id, cast(_J.definition, Text).label("definition"), _J.created_at, _J.effective_from,
        _is_alone(since_is_given).label("is_alone"), _J.planned_version, *beside,
    ).where(_J.job_id > _AFTER)  # fmt: skip
    if since_is_given:
        found = found.where(not_(_is_gone()))
    return found.order_by(_J.job_id).limit(_LIMIT)


@cache
def _grouped(since_is_given: bool) -> Select[Any]:
    page = _listed(since_is_given).subquery("page").c
    is_joined = and_(page.is_alone, func.octet_length(page.definition) <= _LONGEST)
    shared = [is_joined, *(page[name] for name in ("planned_version", *BESIDE))]
    definition = case((is_joined, page.definition))
    texts = (func.string_agg(text, literal(_SEPARATOR)) for text in (page.job_id, definition))
    instants = (
        func.string_agg(func.timestamptz_send(page[name]), literal(b"", LargeBinary), type_=LargeBinary)
        for name in ("created_at", "effective_from")
    )
    return select(*shared, *texts, *instants).group_by(*shared)


def _of_groups(rows: Sequence[Any]) -> JobPage:
    groups, others, last = list[JobGroup](), list[str](), ""
    for is_joined, planned_version, *beside, ids, definitions, created_at, effective_from in rows:
        job_ids = ids.split(_SEPARATOR)
        last = max(last, max(job_ids))
        if not is_joined:
            others += job_ids
            continue
        instants = _instants(created_at), _instants(effective_from)
        shared = dict(zip(BESIDE, beside, strict=True))
        groups.append(JobGroup(planned_version, shared, job_ids, definitions.split(_SEPARATOR), *instants))
    return JobPage(groups, others, last)


def _instants(sent: bytes) -> list[Instant]:
    return [_EPOCH + at for at in struct.unpack(f">{len(sent) // 8}q", sent)]


def _of_jobs(rows: Sequence[Any]) -> JobPage:
    groups: dict[tuple[Any, ...], list[Any]] = {}
    others: list[str] = []
    for row in rows:
        if row.is_alone:
            groups.setdefault(tuple(row[5:]), []).append(row)
        else:
            others.append(row.job_id)
    found = [
        JobGroup(planned_version, dict(zip(BESIDE, beside, strict=True)), *zip(*(row[:4] for row in of), strict=True))
        for (planned_version, *beside), of in groups.items()
    ]
    return JobPage(found, others, rows[-1].job_id)
