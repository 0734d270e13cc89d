"""Who holds a slot of each limit and key: each run that is or may be in flight, and attempts that run on given up.

A run gets its slot when it is chosen. A committed end frees it, or a row read afterwards that is not in flight. A
refused dispatch, a lost answer or an edit frees nothing. Every run is counted for its queue and for undefined limits
too, so that a new limit counts what is in flight already.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from itinerary.protocol.instants import SECOND, Instant
from itinerary.protocol.limits import LimitUse
from scheduler_service.core.leader.lanes import Lane
from scheduler_service.core.limits import QUEUE

Uses = tuple[LimitUse, ...]


@lru_cache(maxsize=4096)
def uses_of(queue: str, limits: Uses) -> Uses:
    """All limits of a run: those that it names, and its queue's own."""
    return (LimitUse(QUEUE + queue), *limits)


@dataclass(slots=True)
class Slots:
    """The holders of each limit and key. `_of_name`: how many a limit has, over all keys.

    `_ending`: attempts whose end is not committed yet, by run. `suspects`: attempts that are over and that a heartbeat
    listed, with its worker and time. `_given_up`: those whose slots are kept. `_freed`: limits that may have got room
    since the last call. `_promised`: slots that lanes opened in this pass are to have. `reserver`: the lane for which a
    slot of each of its limits is kept until it is served.
    """

    _uses: dict[str, Uses] = field(default_factory=dict)
    _holders: dict[LimitUse, dict[str, None]] = field(default_factory=dict)
    _of_name: Counter[str] = field(default_factory=Counter)
    _ending: dict[str, int] = field(default_factory=dict)
    suspects: dict[str, tuple[str, Instant]] = field(default_factory=dict)
    _given_up: dict[str, tuple[str, Instant]] = field(default_factory=dict)
    _freed: dict[LimitUse, None] = field(default_factory=dict)
    _check_at: Instant = 0
    reserver: Lane | None = None
    _reserves_slots: bool = False
    _promised: Counter[LimitUse] = field(default_factory=Counter)
    _lanes: dict[Lane, None] = field(default_factory=dict)

    def count(self, use: LimitUse) -> int:
        """How many slots of the limit and key are taken."""
        return len(self._holders.get(use, ()))

    def count_of_all_keys(self, name: str) -> int:
        """How many slots of the limit are taken, whatever the keys of their runs."""
        return self._of_name[name]

    def holders(self, use: LimitUse) -> Mapping[str, None]:
        """The runs that hold a slot of the limit and key, the first first, and task ids of attempts given up."""
        return self._holders.get(use, {})

    def counts(self) -> Iterable[tuple[LimitUse, int]]:
        """How many slots of each limit and key are taken, where any is."""
        return ((use, len(holders)) for use, holders in self._holders.items())

    def uses(self, run_id: str) -> Uses:
        """The limits of which the run holds a slot."""
        return self._uses.get(run_id, ())

    def take(self, run_ids: Sequence[str], uses: Uses) -> None:
        """Give each of these runs, which have the same limits, a slot of each; it may have them already."""
        self._uses.update(dict.fromkeys(run_ids, uses))
        for use in uses:
            holders = self._holders.setdefault(use, {})
            before = len(holders)
            holders.update(dict.fromkeys(run_ids))
            self._of_name[use.name] += len(holders) - before
        if self._ending:
            for run_id in run_ids:
                self._ending.pop(run_id, None)  # the slot is the row's: its next attempt keeps it

    def ends(self, run_id: str, attempt: int) -> None:
        """Record that the end of the attempt is being written."""
        if run_id in self._uses:
            self._ending[run_id] = attempt

    def committed(self, run_id: str, attempt: int) -> None:
        """Free the run's slots if the end that was committed is that of the attempt which holds them."""
        if self._ending.get(run_id) == attempt:
            self.free(run_id)

    def free(self, run_id: str) -> None:
        """Free the run's slots: its row is not in flight."""
        self._ending.pop(run_id, None)
        for use in self._uses.pop(run_id, ()):
            holders = self._holders[use]
            del holders[run_id]
            if not holders:
                del self._holders[use]
            self._of_name[use.name] -= 1
            if not self._of_name[use.name]:
                del self._of_name[use.name]
            self._freed[use] = None
            if use.key is not None:
                self._freed[LimitUse(use.name)] = None  # the limit may have no keys any more

    def keep(self, attempt: str, uses: Uses, worker: str, now: Instant) -> None:
        """Keep slots for an attempt that was given up and may still run."""
        self.suspects.pop(attempt, None)
        self._given_up[attempt] = (worker, now)
        self.take((attempt,), uses)

    def is_given_up(self, holder: str) -> bool:
        """Whether the holder is an attempt that was given up, not a run."""
        return holder in self._given_up

    def is_listed_again(self, attempt: str, worker: str, now: Instant) -> bool:
        """Note that a heartbeat lists an attempt that is over; true if an earlier one did so and no slots are kept."""
        if attempt in self._given_up:
            self._given_up[attempt] = (worker, now)
            return False
        known = self.suspects.setdefault(attempt, (worker, now))
        return known[1] < now

    def is_over(self, attempt: str) -> None:
        """Free what is kept for the attempt: its worker has reported its end."""
        self.suspects.pop(attempt, None)
        if self._given_up.pop(attempt, None) is not None:
            self.free(attempt)

    def free_unlisted(self, worker: str, listed_by: Instant, others_by: Instant) -> None:
        """Free what is kept for attempts that this worker has not listed since then, or no worker for longer."""
        for known in (self._given_up, self.suspects):
            for attempt, (of, at) in list(known.items()):
                if at < (listed_by if of == worker else others_by):
                    self.is_over(attempt)

    def check_due(self, now: Instant) -> bool:
        """Whether to recall runs that hold slots and are received by nobody; the next time is a second later."""
        if now < self._check_at:
            return False
        self._check_at = now + SECOND
        return True

    def consider(self, uses: Sequence[LimitUse]) -> None:
        """Consider these limits as if slots of theirs were freed: they may have more room."""
        self._freed.update(dict.fromkeys(uses))

    def freed(self) -> Sequence[LimitUse]:
        """The limits to be considered."""
        return tuple(self._freed)

    def take_freed(self) -> Sequence[LimitUse]:
        """Return and reset the limits to be considered."""
        freed, self._freed = tuple(self._freed), {}
        return freed

    def promise(self, lane: Lane) -> None:
        """Keep a slot of each of its limits for the lane, until it is served or the pass is over."""
        self._lanes[lane] = None
        self._promised.update(lane.limits)

    def reserve_for(self, lane: Lane | None, *, slots: bool = False) -> None:
        """Keep starts of its limits for this lane, and with `slots` what comes free; others have what is not kept."""
        if self.reserver is not None and (self.reserver, self._reserves_slots) != (lane, slots):
            self.consider(self.reserver.limits)
        self.reserver, self._reserves_slots = lane, slots

    def reserved_start(self, use: LimitUse, lane: Lane) -> int:
        """How many starts are kept for another lane that was passed over for long."""
        reserver = self.reserver
        return 0 if reserver is None or reserver is lane else reserver.limits.count(use)

    def reserved(self, use: LimitUse, lane: Lane) -> int:
        """How many slots are kept for another lane that was passed over for long."""
        return self.reserved_start(use, lane) if self._reserves_slots else 0

    def promised(self, use: LimitUse, lane: Lane) -> int:
        """How many slots are kept for other lanes."""
        return self._promised[use] - (lane in self._lanes and use in lane.limits) if self._promised else 0

    def keep_promise(self, lane: Lane) -> None:
        """Record that the lane was served or closed: nothing is kept for it."""
        if lane in self._lanes:
            del self._lanes[lane]
            self._promised.subtract(lane.limits)

    def end_promises(self) -> None:
        """Keep nothing for lanes that were not served; what was kept is considered anew."""
        for lane in self._lanes:
            self.consider(lane.limits)
        self._lanes.clear()
        self._promised.clear()
