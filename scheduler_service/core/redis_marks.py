"""Random marks that identify the Redis and the broker of a process. The leader puts them there.

Owns the comparison and its texts. A mark reveals nothing of an address, so it may be stored and shown.
"""

from dataclasses import dataclass
from typing import Final

SAME_REDIS: Final = (
    "give both the same ITINERARY_REDIS_URL, ITINERARY_BROKER_URL, ITINERARY_KEY_PREFIX and "
    "ITINERARY_BROKER_KEY_PREFIX, and restart"
)


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of the Redis with inbox and claims, and of the broker; None if no mark was found."""

    redis: str | None = None
    broker: str | None = None


def differing(leaders: Marks, own: Marks) -> str | None:
    """The servers of this process that differ from the leader's; None if none does or the leader has recorded none."""
    names = []
    if leaders.redis is not None and own.redis != leaders.redis:
        names.append("another Redis")
    if leaders.broker is not None and own.broker != leaders.broker:
        names.append("another broker")
    return " and ".join(names) or None
