"""Pauses, limits and freezes as the leader last read them, and when it recalls what is pending under them."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import MILLISECOND, SECOND, Instant
from scheduler_service.core.controls import Controls, QueuePause
from scheduler_service.core.freezes import NEVER, During, Freeze, holding
from scheduler_service.core.limits import Limit

_RECALL_AGAIN: Final = SECOND
_CONFIRM_AGAIN: Final = 200 * MILLISECOND


@dataclass(slots=True)
class KnownControls:
    """The version, the pauses, limits and freezes by which runs are chosen. `wanted`: the database may have others.

    `freezes`, by their ends, also has past ones, as long as an occurrence may be judged by them. Edits that are not
    read yet are dated no earlier than `read_at`. `any_skips`: whether one of them skips. `_holding`: the freezes that
    hold between the two times before it.
    """

    version: int = 0
    pauses: Mapping[str, QueuePause] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    fair: frozenset[str] = frozenset()
    freezes: tuple[Freeze, ...] = ()
    any_skips: bool = False
    _ends: tuple[Instant, ...] = ()
    read_at: Instant = 0
    wanted: bool = False
    confirming: bool = False
    _confirm_at: Instant = 0
    _recall_at: Instant = 0
    _recalled: frozenset[int] = frozenset()
    _held: frozenset[str | int] = frozenset()
    _from: Instant = NEVER
    _until: Instant = 0
    _holding: tuple[Freeze, ...] = ()

    def want(self) -> None:
        """Read them again as soon as possible."""
        self.wanted = True

    def confirm(self, now: Instant) -> None:
        """Read them again soon: what ends a freeze may have been edited meanwhile."""
        if now >= self._confirm_at:
            self._confirm_at = now + _CONFIRM_AGAIN
            self.wanted = self.confirming = True

    def begin_read(self) -> bool:
        """Record that they are read; whether the time is wanted up to which they are known."""
        self.wanted, confirming, self.confirming = False, self.confirming, False
        return confirming

    def put(self, controls: Controls) -> None:
        """Choose by these from now on."""
        self.version, self.pauses = controls.version, controls.pauses
        self.freezes = tuple(sorted(controls.freezes, key=_end_of))
        self.any_skips = any(one.during is During.SKIP for one in self.freezes)
        self._ends = tuple(map(_end_of, self.freezes))
        self.limits, self.fair, self.read_at = controls.limits, controls.fair, controls.read_at
        self._recall_at, self._from, self._until = 0, NEVER, 0

    def confirmed(self, version: int, at: Instant) -> None:
        """Record that these were all edits at this time, unless others were read meanwhile."""
        if version == self.version:
            self.read_at = max(self.read_at, at)

    def pause_of(self, queue: str, now: Instant) -> QueuePause | None:
        """The pause that holds the queue's runs back."""
        pause = self.pauses.get(queue)
        return pause if pause is not None and pause.holds(now) else None

    def held_queues(self, now: Instant) -> tuple[str, ...]:
        """The queues that are paused."""
        return tuple(sorted(queue for queue, pause in self.pauses.items() if pause.holds(now)))

    def holding(self, now: Instant) -> tuple[Freeze, ...]:
        """The freezes that hold now, the oldest first."""
        if not self.freezes:
            return ()
        if not self._from <= now < self._until:
            self._holding = holding(self.lasting(now), now)
            self._from, self._until = now, min(self._edges(now), default=NEVER)
        return self._holding

    def lasting(self, after: Instant) -> tuple[Freeze, ...]:
        """The freezes that end after this instant, or never: what is due then is judged by no other."""
        return self.freezes[bisect_right(self._ends, after) :]

    def is_anything_held(self, now: Instant) -> bool:
        """Whether a pause or a freeze holds."""
        return bool(self.pauses or self.holding(now))

    def take_ended(self, now: Instant) -> bool:
        """Whether a pause or a freeze has ended since the last call, by an edit or by itself."""
        before = self._held
        self._held = frozenset((*self.held_queues(now), *(one.freeze_id for one in self.holding(now))))
        return not before <= self._held

    def next_change(self, now: Instant) -> Instant | None:
        """The next time at which a pause ends by itself, or a freeze begins or ends."""
        ends = (pause.until for pause in self.pauses.values() if pause.until is not None and pause.until > now)
        return min((*ends, *self._edges(now)), default=None)

    def next_beginning(self, now: Instant) -> Instant | None:
        """The time at which the next freeze begins by itself."""
        lasting = self.lasting(now)
        return min((one.since for one in lasting if one.since > now and not one.is_over(one.since)), default=None)

    def recall_due(self, now: Instant) -> bool:
        """Whether to recall what is pending: after each edit and each beginning of a freeze, then each second."""
        held = frozenset(one.freeze_id for one in self.holding(now))
        if held <= self._recalled and now < self._recall_at:
            return False
        self._recall_at, self._recalled = now + _RECALL_AGAIN, held
        return True

    def edges_between(self, start: Instant, end: Instant) -> tuple[Instant, ...]:
        """The times within at which a freeze began or ended, in order."""
        return tuple(sorted({at for at in self._edges(start) if at < end}))

    def _edges(self, after: Instant) -> list[Instant]:
        return [at for one in self.lasting(after) for at in (one.since, one.end) if at is not None and at > after]


def _end_of(freeze: Freeze) -> Instant:
    return NEVER if freeze.end is None else freeze.end
