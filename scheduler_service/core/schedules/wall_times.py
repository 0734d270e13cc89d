"""A wall-time schedule free of zones: its days, its times of day, its rule at clock changes."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduler_service.core.schedules.clock_rules import ClockRule
from scheduler_service.core.schedules.days import Days

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Clockwork:
    """One block of times of day: every hour, minute and second whose bits are set."""

    hours: int
    minutes: int
    seconds: int


@dataclass(frozen=True, slots=True)
class WallTimes:
    """The days and times of day at which a schedule fires in its zone, and its rule at clock changes."""

    zone: str
    rule: ClockRule
    days: Days
    blocks: tuple[Clockwork, ...]
    not_before: int | None = None
    """Nothing fires before this instant (microseconds)."""


@lru_cache(maxsize=4_096)
def times_of_day(blocks: tuple[Clockwork, ...]) -> Ints:
    """Return the seconds of the day that the blocks name, ascending, each once."""
    return np.unique(np.concatenate([_block(b.hours, b.minutes, b.seconds) for b in blocks]))


@lru_cache(maxsize=4_096)
def _block(hours: int, minutes: int, seconds: int) -> Ints:
    hour, minute, second = (_set_bits(m) for m in (hours, minutes, seconds))
    return (3600 * hour[:, None, None] + 60 * minute[None, :, None] + second[None, None, :]).ravel()


def _set_bits(mask: int) -> Ints:
    return np.asarray([n for n in range(60) if mask >> n & 1], dtype=np.int64)
