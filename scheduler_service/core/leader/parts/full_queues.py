"""Queues in which more runs wait than a poll by time brings, and which of their lanes the database has more of.

Owns the round through a queue's lanes and the place in each at which the next page begins. A round begins lanes anew of
which memory has few runs: what was dropped from memory is found then.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.core.leader.lane_reads import HeadsRead, LanePage, LanesRead
from scheduler_service.core.model import ActiveRun

_ANSWERED_WITHIN: Final = 2 * SECOND
_REST: Final = SECOND
MOST_LANES: Final = 2_000


@dataclass(slots=True)
class FullQueue:
    """One such queue. `more`: its lanes with more runs than memory has, by the page that follows.

    `first`: the lane from which the round continues, None once it is over; `asked_at`: when that was asked.
    `wanted`: another round is to begin, not before `rest_until`. `room_at`: when to free memory again.
    """

    more: dict[str, LanePage] = field(default_factory=dict)
    first: str | None = None
    asked_at: Instant | None = None
    wanted: bool = True
    began_at: Instant = 0
    rest_until: Instant = 0
    room_at: Instant = 0


@dataclass(slots=True)
class FullQueues:
    """Full queues by name. `_heads_at`: when pages were asked that are not answered.

    `_again_at`: when lanes are considered that were not yet, None if all were. `has_read_heads`: one was answered.
    """

    has_read_heads: bool = False
    _queues: dict[str, FullQueue] = field(default_factory=dict)
    _heads_at: Instant | None = None
    _again_at: Instant | None = None

    def __contains__(self, queue: str) -> bool:
        return queue in self._queues

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._queues))

    def __bool__(self) -> bool:
        return bool(self._queues)

    def note_full(self, queue: str) -> None:
        """Record that more runs wait than a poll brings: a round through the lanes begins once the last one is over."""
        self._queues.setdefault(queue, FullQueue()).wanted = True

    def forget(self, queue: str) -> bool:
        """Record that memory has all that is due in the queue, or is to have nothing of it; whether lanes had more."""
        known = self._queues.pop(queue, None)
        return known is not None and bool(known.more)

    def begin_freeing(self, queue: str, now: Instant) -> bool:
        """Whether to free memory of the queue now: it costs much, so once a second."""
        known = self._queues[queue]
        if now < known.room_at:
            return False
        known.room_at = now + SECOND
        return True

    def prune(self, queue: str, wanted: Callable[[LanePage], bool]) -> None:
        """Forget lanes that are not wanted, once there are many: else the round through the others would stop."""
        known = self._queues[queue]
        if len(known.more) >= MOST_LANES:
            known.more = {lane: page for lane, page in known.more.items() if wanted(page)}

    def begin_lanes(self, queue: str, now: Instant) -> str | None:
        """The lane from which a round is to continue now, None if none is; records that it is asked."""
        known = self._queues[queue]
        if known.first is None and known.wanted and now >= known.rest_until:
            known.first, known.began_at, known.wanted = "", now, False
        if known.first is None or len(known.more) >= MOST_LANES or _is_awaited(known.asked_at, now):
            return None
        known.asked_at = now
        return known.first

    def lanes_read(self, read: LanesRead, now: Instant, from_front: Collection[str]) -> None:
        """Record the lanes of the round, all of which may have more; those of `from_front` begin there."""
        known = self._queues.get(read.queue)
        if known is None:
            return
        known.first, known.asked_at = read.following, None
        for lane in read.lanes:
            if lane in from_front or lane not in known.more:
                known.more[lane] = LanePage(read.queue, lane)
        if read.following is None:
            known.rest_until = now + max(_REST, now - known.began_at)  # half of the time, at most

    def next_pages(self, queue: str, most: int) -> list[LanePage]:
        """The next `most` lanes to be considered, each in its turn."""
        more = self._queues[queue].more
        turn = [lane for lane, _ in zip(more, range(most), strict=False)]
        for lane in turn:
            more[lane] = more.pop(lane)
        return [more[lane] for lane in turn]

    def consider_again(self, most: int, at: Instant) -> None:
        """Record that of each queue `most` lanes were considered; those of longer ones follow at `at`."""
        self._again_at = at if any(len(known.more) > most for known in self._queues.values()) else None

    def next_at(self) -> Instant | None:
        """When a round is to begin or lanes are to be considered, if no answer comes before."""
        if not self._queues:
            return None
        rounds = (known.rest_until for known in self._queues.values() if known.wanted and known.first is None)
        return min(filter(None, (*rounds, self._again_at if self._heads_at is None else None)), default=None)

    def heads_awaited(self, now: Instant) -> bool:
        """Whether pages are read at present; an answer that is lost is not awaited for ever."""
        return _is_awaited(self._heads_at, now)

    def begin_heads(self, now: Instant) -> None:
        """Record that pages are read."""
        self._heads_at = now

    def heads_read(self, read: HeadsRead) -> None:
        """Record where the lanes continue, and which have no more."""
        self._heads_at, self.has_read_heads = None, True
        following = {(page.queue, page.lane): page for page in read.more}
        for page in read.pages:
            known = self._queues.get(page.queue)
            if known is not None and known.more.get(page.lane) == page:  # else the lane begins anew
                next_page = following.get((page.queue, page.lane))
                if next_page is None:
                    del known.more[page.lane]
                else:
                    known.more[page.lane] = next_page

    def left(self, run: ActiveRun) -> None:
        """Record that this run stays in the database for the present."""
        self.note_full(run.queue)
        more = self._queues[run.queue].more
        page, place = more.get(run.lane), (run.priority, run.due_at, 0)
        if page is None or (page.after is not None and place < page.after):
            more[run.lane] = LanePage(run.queue, run.lane, place)


def _is_awaited(asked_at: Instant | None, now: Instant) -> bool:
    return asked_at is not None and now - asked_at < _ANSWERED_WITHIN
