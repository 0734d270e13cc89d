"""Jobs that may have changed in the database: read, planned and committed a batch at a time, with a rest in between.

Promises that edits take at most half of the writer's time, however many there are, so that dispatch continues. A
job edited again while it waits is read once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from itinerary.protocol.instants import MILLISECOND, SECOND, Duration, Instant

_FEWEST, _MOST = 25, 400
_QUICK: Final[Duration] = 50 * MILLISECOND
_SLOW: Final[Duration] = 150 * MILLISECOND
_LONGEST_REST: Final[Duration] = SECOND
# Whatever became of an answer, edits go on.
_GIVEN_UP_AFTER: Final[Duration] = 30 * SECOND


@dataclass(slots=True)
class EditQueue:
    """Ids of jobs to read, the oldest first. A batch lasts from its read to the commit of its rows.

    `_size`: that of the next batch, larger after a quick one, smaller after a slow one.
    """

    _waiting: dict[str, None] = field(default_factory=dict)
    _size: int = _FEWEST
    _asked_at: Instant | None = None
    _uncommitted: int = 0
    _rests_until: Instant = 0

    def note(self, job_ids: Iterable[str]) -> None:
        """Read these jobs in their turn."""
        self._waiting.update(dict.fromkeys(job_ids))

    def take(self, now: Instant) -> tuple[str, ...]:
        """Take out the next batch; empty while the last one is not committed, and during the rest after it."""
        in_hand = self._asked_at is not None and now - self._asked_at < _GIVEN_UP_AFTER
        if in_hand or not self._waiting or now < self._rests_until:
            return ()
        batch = tuple(islice(self._waiting, self._size))
        for job_id in batch:
            del self._waiting[job_id]
        self._asked_at, self._uncommitted = now, 0
        return batch

    def read(self, planned: int, now: Instant) -> None:
        """Record that the batch was read, and that so many of its jobs were planned and must be committed."""
        self._uncommitted = planned
        if not planned:
            self._over(now)

    def committed(self, number: int, now: Instant) -> None:
        """Record that the plans of so many jobs are committed."""
        self._uncommitted -= number
        if number and self._uncommitted <= 0:
            self._over(now)

    def next_at(self) -> Instant | None:
        """The time of the next batch; None if no job waits, or if the last batch is not committed."""
        return self._rests_until if self._waiting and self._asked_at is None else None

    def _over(self, now: Instant) -> None:
        if self._asked_at is None:
            return
        took, self._asked_at = now - self._asked_at, None
        self._rests_until = now + min(took, _LONGEST_REST)
        if took < _QUICK:
            self._size = min(2 * self._size, _MOST)
        elif took > _SLOW:
            self._size = max(self._size // 2, _FEWEST)
