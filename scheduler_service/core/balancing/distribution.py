"""The evenness of the next 24 hours: the score, the peak, and advice.

The only place of the score: the mean load of the 96 quarters of an hour (at least one run), divided by the heaviest
load. 1 is even; with the same runs it falls as the peak grows. The window begins with the present slot.
"""

from dataclasses import dataclass
from typing import Any, Final

from itinerary.protocol.instants import DAY, HOUR, MINUTE, format_instant
from scheduler_service.core.balancing.slot_counts import SLOTS_A_DAY
from scheduler_service.core.index.forecast import SLOT

_HOURS: Final = DAY // HOUR
_SLOTS_AN_HOUR: Final = SLOTS_A_DAY // _HOURS
_EVEN: Final = 0.8
_ACCEPTABLE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Distribution:
    """The load of 96 slots from slot `base` on; `jobs` are active, `balanced` of them placed by the scheduler."""

    base: int
    slots: tuple[int, ...]
    jobs: int
    balanced: int

    @property
    def score(self) -> float:
        """Return the score, 1 for even; see above."""
        return score_of(self.slots)

    @property
    def hours(self) -> tuple[int, ...]:
        """Return the runs in each hour of the day in UTC, 0 to 23."""
        counts = [0] * _HOURS
        for number, load in enumerate(self.slots, start=self.base):
            counts[number % SLOTS_A_DAY // _SLOTS_AN_HOUR] += load
        return tuple(counts)

    @property
    def peak_hour(self) -> int:
        """Return the hour of the day with the most runs, the first of them."""
        return self.hours.index(max(self.hours))


def score_of(slots: tuple[int, ...]) -> float:
    """Return the evenness of these loads, in 0..1; without runs it is 1."""
    peak = max(slots, default=0)
    return 1.0 if peak == 0 else max(1.0, sum(slots) / len(slots)) / peak


def suggestion(seen: Distribution) -> str:
    """Return the advice for an operator, in a sentence without a full stop."""
    total, peak, slots = sum(seen.slots), max(seen.slots), len(seen.slots)
    if total == 0:
        return "Nothing is scheduled in the coming 24 hours"
    if seen.score >= _EVEN or peak <= -(-total // slots):
        return "Distribution is even"
    if seen.score >= _ACCEPTABLE:
        return "Distribution is acceptable"
    at = format_instant((seen.base + seen.slots.index(peak)) * SLOT)[11:16]
    what = (
        f"Distribution is uneven: {peak} runs in the quarter of an hour from {at} UTC, {total / slots:.1f} in the mean"
    )
    if seen.balanced:
        return f"{what}; consider a rebalance"
    return f'{what}; give interval jobs "balanced": true and the scheduler places them'


def distribution_body(seen: Distribution) -> dict[str, Any]:
    """Return the distribution as the API shows it; `slot_distribution` is the same by quarters of an hour."""
    hours = seen.hours
    return {
        "window_hours": DAY // HOUR,
        "slot_minutes": SLOT // MINUTE,
        "total_jobs": seen.jobs,
        "hourly_distribution": [{"hour": hour, "job_count": number} for hour, number in enumerate(hours)],
        "distribution_score": round(seen.score, 4),
        "peak_hour": seen.peak_hour,
        "peak_count": max(hours),
        "suggestion": suggestion(seen),
        "window_start": format_instant(seen.base * SLOT),
        "slot_distribution": [
            {"at": format_instant(number * SLOT), "job_count": load}
            for number, load in enumerate(seen.slots, seen.base)
        ],
    }
