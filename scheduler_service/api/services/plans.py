"""Planned runs, counted for calendar and load map beside the requests, and kept for a while.

Promises that no page waits longer than the first 50 ms of a count, and no program longer than half a second. One count
runs at a time, and none takes more than 40 seconds of processor time. Counting takes a twentieth of the time at most:
what took long is kept for long. It gives way to the requests every few milliseconds.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.instants import Instant
from scheduler_service.api.http.under_way import RequestsUnderWay, short_turns
from scheduler_service.core.balancing.slot_counts import share_of
from scheduler_service.core.index.cell_counts import CellCount, Planned, cell_counts
from scheduler_service.core.model import Job
from scheduler_service.ports.stores import JobFilter, JobStore

PATIENCE_OF_PROGRAMS: Final = 0.5
_PATIENCE: Final = 0.05
_LONGEST: Final = 20.0
_FRESH: Final = 10.0
_SHARE: Final = 20
_KEPT: Final = 64
_PAGE: Final = 200
_GROUPED_AT_ONCE: Final = 2_000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PlanFilter:
    """The jobs to count."""

    job_id: str | None = None
    tag: str | None = None
    queue: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The cells counted; without `complete` there are too many jobs, or runs, to count all in time."""

    cells: Sequence[CellCount]
    jobs: int
    complete: bool


@dataclass(slots=True)
class _Kept:
    plan: Plan | None = None
    fresh_until: float = 0.0
    counting: bool = False
    began: float = 0.0


@dataclass(frozen=True, slots=True)
class _Read:
    """The schedules of the jobs last read, which serve every view of them for a while."""

    of: Hashable
    planned: Sequence[Planned]
    complete: bool
    fresh_until: float


class Plans:
    """Counts by their filter and edges, the last ones kept; `requests` are what counting gives way to."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, patience: float = _PATIENCE,
        requests: RequestsUnderWay | None = None,
    ) -> None:  # fmt: skip
        self.requests = requests or RequestsUnderWay()
        self._clock = clock
        self._patience = patience
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._done = threading.Condition()
        self._one_at_a_time = threading.Lock()
        self._read: _Read | None = None  # used only under that lock

    def counted(
        self, jobs: JobStore, who: Hashable, wanted: PlanFilter, edges: Sequence[Instant], now: Instant,
        patience: float = 0.0,
    ) -> Plan | None:  # fmt: skip
        """Return the plan, perhaps a somewhat older one; None if the first count takes longer than this patience."""
        key = (who, wanted, tuple(edges))
        with self.requests.waiting(), self._done:
            kept = self._kept.setdefault(key, _Kept())
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            if self._clock() >= kept.fresh_until and not kept.counting:
                kept.counting, kept.began = True, self._clock()
                # If we die here, nothing is lost: a count is only kept in memory.
                work = (kept, jobs, who, wanted, edges, now)
                threading.Thread(target=self._count, args=work, name="plan-counter", daemon=True).start()
            # A page that comes during a long count finds the time over.
            left = patience or kept.began + self._patience - self._clock()
            self._done.wait_for(lambda: kept.plan is not None or not kept.counting, max(left, 0.0))
            return kept.plan

    def _count(
        self, kept: _Kept, jobs: JobStore, who: Hashable, wanted: PlanFilter, edges: Sequence[Instant], now: Instant
    ) -> None:
        plan, fresh_until = None, 0.0
        try:
            with self._one_at_a_time, short_turns():
                read, began = self._jobs(jobs, who, wanted), time.thread_time()
                planned = self.requests.between(read.planned, _GROUPED_AT_ONCE)
                cells = cell_counts(planned, edges, now, self._may_go_on(began))
                plan = Plan(cells, len(read.planned), read.complete and len(cells) == len(edges) - 1)
                fresh_until = max(read.fresh_until, self._clock() + _SHARE * (time.thread_time() - began))
        except ItineraryError as error:  # the page shows no plan; the next request counts again
            log.warning("the plan was not counted", error=str(error))
        finally:
            with self._done:
                kept.plan = plan or kept.plan
                kept.fresh_until = fresh_until
                kept.counting = False
                self._done.notify_all()

    def _jobs(self, jobs: JobStore, who: Hashable, wanted: PlanFilter) -> _Read:
        """Read the jobs, unless they were read a short while ago; by processor time, not to blame a busy machine."""
        of, read = (who, wanted), self._read
        if read is None or read.of != of or self._clock() >= read.fresh_until:
            began = time.thread_time()
            found, complete = _planned(jobs, wanted, self._may_go_on(began))
            kept_for = max(_FRESH, _SHARE * (time.thread_time() - began))
            read = self._read = _Read(of, found, complete, self._clock() + kept_for)
        return read

    def _may_go_on(self, began: float) -> Callable[[], bool]:
        """Return what is asked before each step of a count: it gives way, and says whether there is time left."""

        def within_time() -> bool:
            self.requests.give_way()
            return time.thread_time() - began < _LONGEST

        return within_time


def _planned(jobs: JobStore, wanted: PlanFilter, may_go_on: Callable[[], bool]) -> tuple[list[Planned], bool]:
    """Return the schedules of these jobs, and whether there was time to read all."""
    if wanted.job_id is not None:
        return _of_jobs([jobs.get(wanted.job_id)], wanted), True
    found: list[Planned] = []
    cursor = None
    while may_go_on():
        page = jobs.list(JobFilter(tag=wanted.tag, queue=wanted.queue), _PAGE, cursor)
        found += _of_jobs(page.items, wanted)
        cursor = page.next_cursor
        if cursor is None:
            return found, True
    return found, False


def _of_jobs(jobs: Iterable[Job], wanted: PlanFilter) -> list[Planned]:
    shares = ((job, share_of(job)) for job in jobs if wanted.queue in (None, job.queue))
    return [Planned(job.job_id, share.schedule, share.start, share.end) for job, share in shares if share is not None]
