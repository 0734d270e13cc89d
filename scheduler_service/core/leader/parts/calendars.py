"""Edits of calendars that the leader learnt of, until its index shows them.

Promises that the cursor passes the beginning of no version that the index in use does not show. So no row that was
created is touched, and no job is expanded by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from itinerary.protocol.instants import Instant
from scheduler_service.core.controls import CalendarEdit


@dataclass(slots=True)
class CalendarEdits:
    """`known`: the revision up to which the jobs in memory show all edits. `_edits`: those that the index does not.

    `_waiting`: calendars whose jobs are read again, each with the id behind which the next page begins.
    """

    known: int = 0
    _noted: int = 0
    _edits: tuple[CalendarEdit, ...] = ()
    _waiting: dict[str, str] = field(default_factory=dict)
    _reading: bool = False

    def taken_over(self, revision: int) -> None:
        """Begin with jobs that were read after the edits up to this revision."""
        self.known = self._noted = revision

    def note(self, revision: int, edits: Sequence[CalendarEdit]) -> None:
        """Learn of edits of calendars; of all edits, those up to `revision` are known now."""
        fresh = [edit for edit in edits if edit.revision > self._noted]
        self._edits += tuple(fresh)
        self._waiting.update({edit.calendar_id: "" for edit in fresh})
        self._noted = max(self._noted, revision)
        self._follow()

    def take(self) -> tuple[str, str] | None:
        """Take the next page to be read: the calendar, and the job behind which it begins."""
        if self._reading or not self._waiting:
            return None
        self._reading = True
        return next(iter(self._waiting.items()))

    def read(self, calendar_id: str, after: str, following: str | None) -> None:
        """Record that the page behind `after` was read; an edit made meanwhile begins with the first page again."""
        self._reading = False
        if self._waiting.get(calendar_id) == after and following is None:
            del self._waiting[calendar_id]
        elif self._waiting.get(calendar_id) == after and following is not None:
            self._waiting[calendar_id] = following
        self._follow()

    def indexed(self, revision: int) -> None:
        """Record that the index shows the edits up to this revision."""
        self._edits = tuple(edit for edit in self._edits if edit.revision > revision)

    def first_after(self, revision: int) -> Instant | None:
        """When the first version begins of those that an index of this revision does not show."""
        return min((edit.effective_from for edit in self._edits if edit.revision > revision), default=None)

    @property
    def bound(self) -> Instant | None:
        """The time that the cursor may not pass."""
        return self.first_after(0)

    @property
    def wants_index(self) -> bool:
        """Whether the jobs in memory show edits that the index in use does not."""
        return any(edit.revision <= self.known for edit in self._edits)

    def _follow(self) -> None:
        if not self._waiting:
            self.known = self._noted
