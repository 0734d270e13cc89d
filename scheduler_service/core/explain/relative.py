"""Distances in time, in the words of everyday language."""

from typing import Final

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant

_UNITS: Final = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"))


def relative(instant: Instant, now: Instant) -> str:
    """Format `in 3 min`, `2 h ago`, `now`: in the largest whole unit."""
    text = rough(abs(instant - now))
    if text is None:
        return "now"
    return f"in {text}" if instant > now else f"{text} ago"


def rough(duration: Duration) -> str | None:
    """Format `3 min`: the largest whole unit; None below a second."""
    for size, name in _UNITS:
        if duration >= size:
            return f"{duration // size} {name}"
    return None
