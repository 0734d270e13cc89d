"""Lists of jobs and runs: pages, orders, and the filters that REST, pages and bulk operations share. Values only."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

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


NEWEST_FIRST: Final = Order(RunSort.SCHEDULED_AT, descending=True)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """The jobs that a list shows: `text` in id, title or task, `source` as owner, ids with one of the `prefixes`.

    `job_ids`: only these.
    """

    tag: str | None = None
    text: str | None = None
    paused: bool | None = None
    source: str | None = None
    prefixes: tuple[str, ...] = ()
    job_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFilter:
    """The filters of `GET /runs`; `queues` are those that the caller may see, `owner` limits to its own runs.

    `run_ids`: only these. No index finds runs by `task`, `limit_name` or `limit_key`. A page reads a bounded number of
    the others for them, and may have fewer than asked for.
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

    @property
    def scans(self) -> bool:
        """Whether rows must be read to be judged."""
        return (self.task, self.limit_name, self.limit_key) != (None, None, None)
