"""The pace of each queue: its starts of the last seconds, its publish window, and whether others use it."""

from collections import deque
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import MILLISECOND, SECOND, Duration, Instant

MOST: Final = 10_000
_PART: Final = 100 * MILLISECOND
_PARTS_A_SECOND: Final = SECOND // _PART
_BEST_OF: Final = 10 * SECOND
# Seven eighths of the window lie there meanwhile; each refill is a transaction.
_REFILL_WITHIN: Final = 250 * MILLISECOND
_FOREIGN_FOR: Final = 10 * SECOND
_LONGEST_WAY: Final = 10 * SECOND


@dataclass(slots=True)
class Pace:
    """One queue. `window`: the last that was found for our own messages. `is_full`: runs waited after its last refill.

    `grown`: a lower bound until `grown_until`, since the window ran dry. `room_since`: when there was too little room
    for a refill. `foreign_until`: others' messages lie before ours. `recalled`: recalled messages that may lie there.
    `best`: the most starts within a second, as of the part `judged_in`. `confirmed_in`: the time from the commit to the
    broker's confirmation of the last message.
    """

    parts: deque[tuple[int, int]] = field(default_factory=deque)
    window: int = 0
    best: int = 0
    judged_in: int = 0
    grown: int = 0
    grown_until: Instant = 0
    is_full: bool = False
    room_since: Instant | None = None
    foreign_until: Instant = 0
    recalled: int = 0
    confirmed_in: Duration = 0

    def effective(self, now: Instant) -> int:
        """The window; all there may be where the queue is mostly others'."""
        return MOST if now < self.foreign_until else self.window

    def count(self, now: Instant) -> None:
        """Count a start."""
        part = now // _PART
        if self.parts and self.parts[-1][0] >= part:
            self.parts[-1] = (self.parts[-1][0], self.parts[-1][1] + 1)
        else:
            self.parts.append((part, 1))

    def forget_before(self, at: Instant) -> None:
        """Forget earlier starts."""
        while self.parts and self.parts[0][0] < at // _PART:
            self.parts.popleft()

    def starts_since(self, at: Instant) -> int:
        """The number of starts since then."""
        first, total = at // _PART, 0
        for part, number in reversed(self.parts):
            if part < first:
                break
            total += number
        return total

    def best_second(self, now: Instant) -> int:
        """The most starts within any second that is known, judged anew ten times a second."""
        if self.judged_in != now // _PART:
            self.judged_in, self.best = now // _PART, self._best_second()
        return self.best

    def _best_second(self) -> int:
        best = within = 0
        begun: deque[tuple[int, int]] = deque()
        for part, number in self.parts:
            begun.append((part, number))
            within += number
            while begun[0][0] <= part - _PARTS_A_SECOND:
                within -= begun.popleft()[1]
            best = max(best, within)
        return best


@dataclass(slots=True)
class Windows:
    """The paces by queue, of queues whose window is found by the leader (`PUBLISH_WINDOW=auto`)."""

    _paces: dict[str, Pace] = field(default_factory=dict)
    _next_check_at: Instant = 0

    def known(self, now: Instant) -> dict[str, int]:
        """The last window of each queue that has one."""
        return {queue: pace.effective(now) for queue, pace in self._paces.items() if pace.window}

    def started(self, queue: str, now: Instant) -> None:
        """Count a start."""
        self._pace(queue).count(now)

    def confirmed(self, queue: str, took: Duration) -> None:
        """Record how long the broker's confirmation of a message took."""
        self._pace(queue).confirmed_in = min(max(0, took), _LONGEST_WAY)

    def find(self, queue: str, wanted: int, ahead: Duration, now: Instant, *, is_late: bool, is_dry: bool) -> int:
        """The window of the queue: what `wanted` and the starts of the last `ahead` ask for, within bounds.

        A slow broker makes `ahead` longer: what is on its way there, or reported back, does not lie. Doubles when it
        `is_dry` though runs waited; does not shrink below the best second of the last ten, nor while the inbox is read
        late.
        """
        pace = self._pace(queue)
        ahead += 2 * pace.confirmed_in
        pace.forget_before(now - max(_BEST_OF, ahead))
        window = max(wanted + pace.starts_since(now - ahead) + 1, pace.best_second(now))
        if is_dry and pace.is_full:
            # Until the starts that follow from it are counted.
            pace.grown, pace.grown_until = 2 * max(window, pace.window), now + ahead
            pace.is_full = False
        if now < pace.grown_until:
            window = max(window, pace.grown)
        if is_late:
            window = max(window, pace.window)
        pace.window = min(window, MOST)
        return pace.effective(now)

    def may_refill(self, queue: str, room: int, waiting: int, now: Instant, *, is_free: bool) -> bool:
        """Whether the room is worth a transaction: an eighth, all that waits, a free slot, or after a moment."""
        pace = self._pace(queue)
        if room <= 0:
            pace.is_full, pace.room_since = True, None
            return False
        enough = room >= min(waiting, max(1, pace.effective(now) // 8)) or is_free
        if not enough and pace.room_since is None:
            pace.room_since = now
        if not enough and pace.room_since is not None and now - pace.room_since < _REFILL_WITHIN:
            return False
        pace.room_since = None
        return True

    def refilled(self, queue: str, *, is_full: bool) -> None:
        """Record whether runs wait on after the refill."""
        self._pace(queue).is_full = is_full

    def next_at(self, waiting: Iterable[str]) -> Instant | None:
        """When a refill of one of these queues is due that waits for more room."""
        since = [pace.room_since for queue in waiting if (pace := self._paces.get(queue)) is not None]
        return min((at + _REFILL_WITHIN for at in since if at is not None), default=None)

    def recalled(self, queue: str) -> None:
        """Count a message that lies in the queue and starts nothing; without it, the window has not run dry."""
        pace = self._pace(queue)
        pace.recalled += 1
        pace.is_full = False

    def seen(self, queue: str, length: int, ours: int, now: Instant) -> None:
        """Compare the queue's length with what is ours in it, and with its window."""
        pace = self._paces.get(queue)
        if pace is None:
            return
        if length <= ours:
            pace.recalled = 0
        is_foreign = length > ours + pace.recalled + pace.window
        pace.foreign_until = now + _FOREIGN_FOR if is_foreign else 0

    def check_due(self, now: Instant) -> bool:
        """Whether what lies too long is to be recalled now; the next time is a second later."""
        if now < self._next_check_at:
            return False
        self._next_check_at = now + SECOND
        return True

    def forget_idle(self, busy: Container[str], waiting: Container[str], now: Instant) -> None:
        """Forget queues without a start in the last seconds in which nothing lies or waits: names come and go."""
        for queue in [queue for queue in self._paces if queue not in busy and queue not in waiting]:
            pace = self._paces[queue]
            pace.forget_before(now - _BEST_OF)
            if not pace.parts:
                del self._paces[queue]

    def _pace(self, queue: str) -> Pace:
        pace = self._paces.get(queue)
        if pace is None:
            pace = self._paces[queue] = Pace()
        return pace
