"""Which Redis and which broker a process uses, known by random marks that the leader puts there.

Owns the comparison and its sentences. A mark holds nothing of an address, so it may be stored and shown.
"""

from dataclasses import dataclass
from typing import Final

SAME_REDIS: Final = (
    "give both the same ITINERARY_REDIS_URL, ITINERARY_BROKER_URL and ITINERARY_BROKER_KEY_PREFIX, and restart"
)


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of the Redis with inbox and claims, and of the broker; None where no mark was found."""

    redis: str | None = None
    broker: str | None = None


def differing(leaders: Marks, own: Marks) -> str | None:
    """Which of the two is another one than the leader's; None where none is, or the leader has recorded nothing."""
    names = []
    if leaders.redis is not None and own.redis != leaders.redis:
        names.append("another Redis")
    if leaders.broker is not None and own.broker != leaders.broker:
        names.append("another broker")
    return " and ".join(names) or None
