"""Links that share one page with people without a login. Values only."""

from dataclasses import dataclass
from typing import Final

from itinerary.protocol.instants import DAY, HOUR, Duration, Instant

USUAL: Final[Duration] = 7 * DAY
SHORTEST: Final[Duration] = HOUR
LONGEST: Final[Duration] = 90 * DAY


@dataclass(frozen=True, slots=True)
class ShareLink:
    """A link to the page at `address`, path and query; `granted_by` names the token or rule behind it."""

    link_id: int
    address: str
    granted_by: str
    created_by: str
    created_at: Instant
    ends_at: Instant
