"""The durations of the runs of a job, version by version, as numbers for a picture. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from itinerary.protocol.instants import MILLISECOND, Duration
from scheduler_service.api.pages.moments import length
from scheduler_service.ports.history import Outcome

_WIDTH: Final = 1000
_NOTABLE: Final = 1.2
_FEWEST: Final = 3


@dataclass(frozen=True, slots=True)
class VersionDurations:
    """The runs of one version: from a tenth to nine tenths of them, and their median, in thousandths of the width."""

    version: int
    runs: int
    median: str
    p95: str
    low: int
    high: int
    middle: int
    text: str


def by_version(outcomes: Sequence[Outcome]) -> list[VersionDurations]:
    """Describe the versions of these runs, the newest first; none for runs that never started or have no version."""
    took: defaultdict[int, list[Duration]] = defaultdict(list)
    for run in outcomes:
        if run.took is not None and run.job_version is not None:
            took[run.job_version].append(run.took)
    scale = max((max(_quantile(sorted(found), 0.9), MILLISECOND) for found in took.values()), default=MILLISECOND)
    return [_line(version, sorted(took[version]), scale) for version in sorted(took, reverse=True)]


def drift(outcomes: Sequence[Outcome]) -> str | None:
    """Say how the newest version's median differs from that of the one before, if it differs by a fifth or more."""
    both = by_version(outcomes)[:2]
    if len(both) < 2 or any(line.runs < _FEWEST for line in both):
        return None
    new, old = (_median(outcomes, line.version) for line in both)
    more = new / max(old, MILLISECOND)
    if 1 / _NOTABLE < more < _NOTABLE:
        return None
    change = f"{more:.1f} times as long as" if more > 1 else f"{100 * (1 - more):.0f} % less than"
    return f"Version {both[0].version} takes {change} version {both[1].version}."


def _median(outcomes: Sequence[Outcome], version: int) -> Duration:
    return _quantile(sorted(run.took for run in outcomes if run.job_version == version and run.took is not None), 0.5)


def _line(version: int, ordered: Sequence[Duration], scale: Duration) -> VersionDurations:
    low, middle, high = (_quantile(ordered, share) for share in (0.1, 0.5, 0.9))
    median, p95 = length(middle) or "", length(_quantile(ordered, 0.95)) or ""
    runs = f"{len(ordered)} {'run' if len(ordered) == 1 else 'runs'}"
    text = f"Version {version}: median {median}, nine of ten within {length(high)}, of {runs}"
    return VersionDurations(
        version, len(ordered), median, p95, _place(low, scale), _place(high, scale), _place(middle, scale), text
    )


def _place(took: Duration, scale: Duration) -> int:
    return round(_WIDTH * min(took, scale) / scale)


def _quantile(ordered: Sequence[Duration], share: float) -> Duration:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
