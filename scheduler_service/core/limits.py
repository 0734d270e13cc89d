"""Limits as users define them: how many runs may be in flight, and how many may start in any window. Values only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import DAY, Duration
from itinerary.protocol.limits import LimitUse

LONGEST_RATE: Final = DAY
"""No window of a rate is longer."""
QUEUE: Final = "queue:"
"""Before the name of a queue: the name of its own limit, which no other limit can have."""


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` runs start in any window of `per`."""

    count: int
    per: Duration


@dataclass(frozen=True, slots=True)
class Bounds:
    """At most `concurrency` runs are in flight, at most `rate` start; None: any number."""

    concurrency: int | None = None
    rate: Rate | None = None

    def replaced_by(self, other: "Bounds") -> "Bounds":
        """These bounds, with each that `other` has in place of theirs."""
        return Bounds(self.concurrency if other.concurrency is None else other.concurrency, other.rate or self.rate)


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit by its name. `per_key`: the bounds hold for each key by itself, and `overrides` replaces those of one."""

    name: str
    bounds: Bounds
    per_key: bool = False
    overrides: Mapping[str, Bounds] = field(default_factory=dict)
    description: str = ""

    def counted(self, use: LimitUse) -> LimitUse:
        """The use by which a run is counted: all together in a limit without keys, whatever keys its runs name."""
        return use if self.per_key or use.key is None else LimitUse(use.name)

    def bounds_of(self, key: str | None) -> Bounds:
        """The bounds that hold for this key."""
        override = None if key is None else self.overrides.get(key)
        return self.bounds if override is None else self.bounds.replaced_by(override)

    def longest_window(self) -> Duration:
        """The longest window of its rates, over all keys; 0 without a rate."""
        rates = (bounds.rate for bounds in (self.bounds, *self.overrides.values()))
        return max((rate.per for rate in rates if rate is not None), default=0)


def longest_windows(limits: Iterable[Limit]) -> dict[str, Duration]:
    """How long a start counts for each limit that has a rate."""
    return {limit.name: longest for limit in limits if (longest := limit.longest_window())}
