"""Slots that go from a run that ends to the next one in one transaction, for which two runs hold them in memory.

Promises that what is counted is the most that is in flight, whether that transaction commits or not.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from itinerary.protocol.limits import LimitUse

Counted = LimitUse | str
"""A limit and key, or the name of a limit: all its keys together."""


@dataclass(slots=True)
class HandOvers:
    """`_ending`: how many slots the ends of this pass free. `_paired`: how many two runs hold, the second one given.

    `_given`: runs of unanswered hand-overs with their queue, and the limits of which each has a paired slot.
    """

    _ending: Counter[Counted] = field(default_factory=Counter)
    _paired: Counter[Counted] = field(default_factory=Counter)
    _given: dict[str, tuple[str, Sequence[LimitUse]]] = field(default_factory=dict)
    _of_queue: Counter[str] = field(default_factory=Counter)

    def ends(self, uses: Iterable[LimitUse]) -> None:
        """Record that this pass writes the end of a run which has these slots and will not be dispatched again."""
        for use in uses:
            _change(self._ending, use, 1)

    def has_ends(self) -> bool:
        """Whether ends of this pass free slots that are not given yet."""
        return bool(self._ending)

    def ending_uses(self) -> list[LimitUse]:
        """The limits of which the ends of this pass free slots, with their keys and without."""
        return [LimitUse(one) if isinstance(one, str) else one for one in self._ending]

    def ending(self, counted: Counted) -> int:
        """How many slots the ends of this pass free that are not given yet."""
        return self._ending[counted]

    def paired(self, counted: Counted) -> int:
        """How many slots two runs hold."""
        return self._paired[counted]

    def is_paired(self, run_id: str, use: LimitUse) -> bool:
        """Whether the run is given a slot of the limit that another run holds still."""
        return run_id in self._given and use in self._given[run_id][1]

    def of_queue(self, queue: str) -> int:
        """How many runs of the queue are given."""
        return self._of_queue[queue]

    def give(self, run_id: str, queue: str, uses: Iterable[LimitUse]) -> None:
        """Record that the run, which has taken these slots, is dispatched with the ends of this pass."""
        paired = [use for use in uses if self._ending[use]]
        for use in paired:
            _change(self._ending, use, -1)
            _change(self._paired, use, 1)
        self._given[run_id] = (queue, paired)
        self._of_queue[queue] += 1

    def answered(self, run_id: str) -> None:
        """Record that the dispatch was answered; both runs count until the end is known to be committed."""
        if run_id not in self._given:
            return
        queue, paired = self._given.pop(run_id)
        for use in paired:
            _change(self._paired, use, -1)
        self._of_queue[queue] -= 1
        if not self._of_queue[queue]:
            del self._of_queue[queue]

    def end_pass(self) -> None:
        """Forget what the ends of this pass free: the next pass gives nothing of it."""
        self._ending.clear()


def _change(counter: Counter[Counted], use: LimitUse, by: int) -> None:
    """Count a slot of the limit and key, and of all keys; keys come and go, so no zero stays."""
    for counted in (use, use.name):
        counter[counted] += by
        if not counter[counted]:
            del counter[counted]
