"""The schedule table of all jobs, updated with them: a few changed jobs cost a few reads, not a rebuild.

Promises that its expansion equals that of a table built from scratch. Works on some thousands of jobs at a time, so
that other threads get to run in between.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import compress, count
from operator import attrgetter, is_not
from typing import Final

import numpy as np

from itinerary.protocol.instants import MINUTE, Duration, Instant
from scheduler_service.core.index.expansion import expand_table
from scheduler_service.core.index.schedule_table import Draft, Positions, ScheduleTable
from scheduler_service.core.model import JobHistory
from scheduler_service.core.versions import is_plain, spans

_FOREVER: Final[Instant] = 2**62
_AT_ONCE: Final = 10_000
_STRETCH: Final[Duration] = 10 * MINUTE
# A change costs at least a hundredth of a rebuild: the arrays are copied, and unused rows stay in them.
_CHANGES: Final = 100
_job_id: Final = attrgetter("job_id")


class JobTable:
    """The schedule table (`table`) and the ids of its ordinals, in order."""

    def __init__(self) -> None:
        self.table = ScheduleTable.of(())
        self.job_ids: Sequence[str] = ()
        self._jobs: tuple[JobHistory, ...] = ()
        self._since: Instant = 0
        self._spent = 0

    def follow(self, jobs: tuple[JobHistory, ...], since: Instant) -> None:
        """Update the table to these jobs, for windows from `since` on."""
        if not self._jobs or since < self._since:
            self._read(jobs, since)
            return
        gone, put = _differences(self._jobs, jobs)
        if gone or put:
            self._spent += max(len(gone) + len(put), len(jobs) // _CHANGES)
            if self._spent < len(jobs):
                self._change(gone, put)
            else:
                self._read(jobs, since)
        self._jobs = jobs

    def firing(self, start: Instant, end: Instant) -> set[str]:
        """The ids of the jobs with an occurrence in [start, end), found in short windows because there may be many."""
        fires = np.zeros(len(self.job_ids), dtype=np.bool_)
        for begin in range(start, end, _STRETCH):
            fires[expand_table(self.table, begin, min(begin + _STRETCH, end)).ordinals] = True
            if fires.all():  # after a clock that jumped, `end` may be years away
                break
        return set(compress(self.job_ids, fires))

    def _read(self, jobs: tuple[JobHistory, ...], since: Instant) -> None:
        ordered = sorted(jobs, key=_job_id)
        self.job_ids = [*map(_job_id, ordered)]
        self.table = _table_of(ordered, np.arange(len(ordered), dtype=np.int32), since)
        self._jobs, self._since, self._spent = jobs, since, 0

    def _change(self, gone: Iterable[str], put: Iterable[JobHistory]) -> None:
        """Read the histories `put` again, and remove the jobs `gone` unless they came back."""
        fresh = {history.job_id: history for history in put}
        before, ids, ordinals, touched, last = self.job_ids, list[str](), list[int](), list[int](), 0
        shift = np.zeros(len(before) + 1, dtype=np.int32)
        for job_id in sorted({*gone, *fresh}):
            at = bisect_left(before, job_id, last)
            known = at < len(before) and before[at] == job_id
            ids += before[last:at]
            if known:
                touched.append(at)
            if job_id in fresh:
                ordinals.append(len(ids))
                ids.append(job_id)
            shift[at] += (job_id in fresh) - known
            last = at + known
        ids += before[last:]
        numbers = np.arange(len(before), dtype=np.int32) + np.cumsum(shift[:-1], dtype=np.int32)
        numbers[touched] = -1
        ordered = [fresh[job_id] for job_id in sorted(fresh)]
        changed = _table_of(ordered, np.asarray(ordinals, dtype=np.int32), self._since)
        self.table, self.job_ids = self.table.changed(numbers, changed), ids


def _table_of(histories: Sequence[JobHistory], ordinals: Positions, since: Instant) -> ScheduleTable:
    draft = Draft()
    for first in range(0, len(histories), _AT_ONCE):
        part, numbers = histories[first : first + _AT_ONCE], ordinals[first : first + _AT_ONCE]
        plain = np.fromiter(map(is_plain, part), dtype=np.bool_, count=len(part))
        jobs = [*compress(part, plain)]
        created = np.fromiter([job.effective_from for job in jobs], dtype=np.int64, count=len(jobs))
        draft.add(
            numbers[plain], [job.schedule for job in jobs], np.maximum(created, since), np.full(len(jobs), _FOREVER)
        )
        others = [
            (number, *span)
            for number, history in compress(zip(numbers.tolist(), part, strict=True), ~plain)
            for span in spans(history, since, _FOREVER)
        ]
        draft.add(
            np.asarray([number for number, _, _, _ in others], dtype=np.int32),
            [job.schedule for _, job, _, _ in others],
            np.asarray([start for _, _, start, _ in others], dtype=np.int64),
            np.asarray([end for _, _, _, end in others], dtype=np.int64),
        )
    return draft.finished()


def _differences(before: Sequence[JobHistory], after: Sequence[JobHistory]) -> tuple[list[str], list[JobHistory]]:
    """The ids of jobs that are gone, and the histories that are not the same objects as before.

    Equal pairs cost next to nothing. Jobs are assumed to keep their order; one that does not is both gone and put.
    """
    gone, put = list[str](), list[JobHistory]()
    old, new = iter(before), iter(after)
    i = j = 0
    while unequal := next(compress(count(1), map(is_not, old, new)), 0):
        i, j = i + unequal, j + unequal
        while before[i - 1].job_id != after[j - 1].job_id:
            gone.append(before[i - 1].job_id)
            if next(old, None) is None:
                break
            i += 1
        if before[i - 1] is not after[j - 1]:
            put.append(after[j - 1])
    alike = min(len(before) - i, len(after) - j)
    gone += [history.job_id for history in before[i + alike :]]
    return gone, [*put, *after[j + alike :]]
