"""A check of `doctor`: reads every stored job as the leader would, and names those that this release cannot read."""

import time
from collections import defaultdict
from typing import Final

from sqlalchemy import select

from itinerary.protocol.errors import BadValue, BadValues, ItineraryError
from scheduler_service.core.contract.unknown_fields import names
from scheduler_service.sql.database import Database
from scheduler_service.sql.job_rows import JOB_COLUMNS, current_job_of
from scheduler_service.sql.tables import jobs

_PAGE: Final = 2_000
_LONGEST_S: Final = 20
_MOST_NAMED: Final = 5


class JobsRefused(ItineraryError):
    """Stored jobs that this release cannot read: the leader plans no runs of them."""


def check_jobs(database: Database, longest_s: float = _LONGEST_S) -> str:
    """Describe the stored jobs; JobsRefused if some are not planned since this release refuses them."""
    until, after, seen, rows = time.monotonic() + longest_s, "", 0, True
    refused: dict[str, str] = {}
    unknown: dict[str, list[str]] = defaultdict(list)
    while rows and time.monotonic() < until:
        asked = select(*JOB_COLUMNS, jobs.c.job_id).where(~jobs.c.deleted, jobs.c.job_id > after)
        with database.read() as connection:
            found = connection.execute(asked.order_by(jobs.c.job_id).limit(_PAGE)).all()
        for row in found:
            try:
                for field in names(current_job_of(row).unknown or {}):
                    unknown[field].append(row.job_id)
            except (BadValue, BadValues) as error:
                refused[row.job_id] = str(error)
        seen, rows = seen + len(found), len(found) == _PAGE
        after = found[-1].job_id if found else after
    text = f"{'the first ' if rows else ''}{seen:,} read"
    for field, job_ids in sorted(unknown.items()):
        text += f"; {field} of {_named(job_ids)} is of a newer release: kept, and without effect"
    if refused:
        first = next(iter(refused))
        raise JobsRefused(f"{text}; not planned: {_named(list(refused))}, since {first} is refused: {refused[first]}")
    return text


def _named(job_ids: list[str]) -> str:
    more = f" and {len(job_ids) - _MOST_NAMED:,} more" if len(job_ids) > _MOST_NAMED else ""
    return ", ".join(job_ids[:_MOST_NAMED]) + more
