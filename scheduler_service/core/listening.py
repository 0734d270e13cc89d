"""Between which instants the inbox is known to have been read to its end, without a pause.

A read that has not come back tells nothing: a worker is silent only up to where reads of its words are confirmed.
"""

from dataclasses import dataclass
from typing import Final

from scheduler_service.core.instants import SECOND, Instant

# Confirmed more rarely than that, workers may have had no way to speak: their time begins anew.
PAUSE: Final = 2 * SECOND


@dataclass(frozen=True, slots=True)
class Listened:
    """All that was said until `until` is read, and could be said at any time from `since` on."""

    since: Instant
    until: Instant

    def confirmed(self, asked_at: Instant) -> "Listened":
        """A read that was asked for then stood at the stream's end."""
        return Listened(self.since if asked_at - self.until <= PAUSE else asked_at, asked_at)


NEVER: Final = Listened(0, 0)
