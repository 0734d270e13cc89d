"""Lists of jobs and runs: pages, orders, and the filters that REST, pages and bulk operations share. Values only."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Instant
from scheduler_service.core.run_state import RunState

T = TypeVar("T")
S = TypeVar("S", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list; `next_cursor` is None on the last page. Stable under writes (keyset)."""

    items: list[T]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Order(Generic[S]):
    """The order of a list; rows that are equal follow their ids, those without a value come last."""

    by: S
    descending: bool = False

    @property
    def text(self) -> str:
        """The order in addresses and cursors."""
        return f"-{self.by}" if self.descending else self.by.value


class RunSort(StrEnum):
    """The values that sort runs; a duration is that of the last attempt, once it is over."""

    SCHEDULED_AT = "scheduled_at"
    DUE_AT = "due_at"
    STARTED_AT = "started_at"
    FINISHED_AT = "finished_at"
    DURATION = "duration"


class JobSort(StrEnum):
    """The values that sort jobs; `last_state`: what went wrong before what goes well."""

    JOB_ID = "job_id"
    NEXT_RUN = "next_run"
    LAST_RUN = "last_run"
    LAST_STATE = "last_state"


def too_many(order: Order[JobSort], most: int) -> BadValue:
    """The error for a list that is longer than what this order sorts."""
    narrower = "narrow the list by queue, task, tag or a search, or sort by job_id"
    return BadValue("sort", order.text, f"no index has jobs in this order, and more than {most:,} match; {narrower}")


# Jobs are sorted by what no index has: each one's next run is computed, its last one looked up.
MOST_BY_NEXT_RUN: Final = 500
MOST_BY_LAST_RUN: Final = 10_000
BY_ID: Final = Order(JobSort.JOB_ID)
NEWEST_FIRST: Final = Order(RunSort.SCHEDULED_AT, descending=True)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """The jobs that a list shows: `text` in id, title or task, `source` as owner, ids with one of the `prefixes`.

    `job_ids`: only these. `last_states`: the newest run that was due is in one of them. A page reads a bounded number
    of jobs for it, and may have fewer than asked for.
    """

    tag: str | None = None
    text: str | None = None
    paused: bool | None = None
    source: str | None = None
    prefixes: tuple[str, ...] = ()
    job_ids: tuple[str, ...] = ()
    queue: str | None = None
    task: str | None = None
    last_states: tuple[RunState, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFilter:
    """The filters of `GET /runs`; `queues` are those that the caller may see, `owner` limits to its own runs.

    `run_ids`: only these. `planned`: whether a schedule planned them; `recalled`: whether their message was taken back.
    No index finds runs by these two, `task`, `limit_name` or `limit_key`. A page reads a bounded number of the others
    for them: it may have fewer than asked for.
    """

    job_id: str | None = None
    states: tuple[RunState, ...] = ()
    queue: str | None = None
    since: Instant | None = None
    until: Instant | None = None
    queues: tuple[str, ...] = ()
    owner: str | None = None
    run_ids: tuple[str, ...] = ()
    task: str | None = None
    limit_name: str | None = None
    limit_key: str | None = None
    planned: bool | None = None
    recalled: bool | None = None

    @property
    def scans(self) -> bool:
        """Whether rows must be read to be judged."""
        judged = (self.task, self.limit_name, self.limit_key, self.planned, self.recalled)
        return any(one is not None for one in judged)
