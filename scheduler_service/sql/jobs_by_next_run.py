"""Pages of jobs by their next run, which no column has: computed for each job that the filter finds.

Promises a keyset, as of the time of the first page; refuses a list of more than SORTED jobs.
"""

from typing import Final

from sqlalchemy import Connection

from itinerary.protocol.instants import Instant
from scheduler_service.core.contract.next_runs import next_runs_of
from scheduler_service.core.model import Job
from scheduler_service.core.versions import as_of
from scheduler_service.ports.lists import BY_ID, MOST_BY_NEXT_RUN, JobFilter, JobSort, Order, Page, too_many
from scheduler_service.sql.applied_calendars import closed_now
from scheduler_service.sql.job_lists import page_of_jobs
from scheduler_service.sql.job_rows import listed_jobs
from scheduler_service.sql.paging import no_cursor, page_of, read_cursor

SORTED: Final = MOST_BY_NEXT_RUN


def page_by_next_run(
    connection: Connection, wanted: JobFilter, limit: int, cursor: str | None, order: Order[JobSort], now: Instant
) -> Page[Job]:
    """The next page of jobs; those that never run again come last."""
    before: tuple[int, int, str] | None = None
    if cursor is not None:
        text, now, *place = read_cursor(cursor, str, int, int, int, str)
        if text != order.text:
            raise no_cursor(cursor)
        before = (place[0], place[1], place[2])
    found = page_of_jobs(connection, wanted, SORTED, None, BY_ID, now)
    if found.next_cursor is not None:
        raise too_many(order, SORTED)
    jobs = [as_of(job, now) for job in closed_now(connection, listed_jobs(found.items))]
    keyed = [(*_key(job, order, now), job) for job in sorted(jobs, key=_id, reverse=order.descending)]
    keyed.sort(key=lambda one: one[:2])
    following = [one for one in keyed if before is None or _is_behind((*one[:2], one[2].job_id), before, order)]
    return page_of(
        following[: limit + 1], limit, lambda one: one[2], lambda one: [order.text, now, *one[:2], one[2].job_id]
    )


def _id(job: Job) -> str:
    return job.job_id


def _key(job: Job, order: Order[JobSort], now: Instant) -> tuple[int, int]:
    """Whether it has no next run, and the instant, so that a rising order of both is the order asked for."""
    at = next(iter(next_runs_of(job, now, 1)), None)
    return (1, 0) if at is None else (0, -at if order.descending else at)


def _is_behind(key: tuple[int, int, str], before: tuple[int, int, str], order: Order[JobSort]) -> bool:
    if key[:2] != before[:2]:
        return key[:2] > before[:2]
    return key[2] < before[2] if order.descending else key[2] > before[2]
