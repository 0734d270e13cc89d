"""Charts of runs as numbers for an SVG: colour and mark show the result, height the duration. Pure."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from itinerary.protocol.instants import MILLISECOND, MINUTE, Duration, Instant
from scheduler_service.api.pages.moments import length, plain_time
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.history import Outcome

_STEP: Final = 5
_LOWEST: Final = 3
_SPARK_HEIGHT: Final = 20
_CHART_HEIGHT: Final = 96
_MARKED: Final = frozenset({RunState.FAILED, RunState.MISSED, RunState.CANCELLED})


@dataclass(frozen=True, slots=True)
class RunBar:
    """One run; `mark`: it did not succeed, shown by a triangle as well as by colour."""

    x: int
    height: int
    state: str
    mark: bool
    text: str
    run_id: str


@dataclass(frozen=True, slots=True)
class RunChart:
    """Runs from the oldest to the newest; `bound` is the position of the timeout's line, from the top."""

    bars: tuple[RunBar, ...]
    width: int
    text: str
    longest: str | None
    bound: float | None = None


def spark(newest_first: Sequence[Outcome], places: int = 30) -> RunChart:
    """Draw a job's last runs on a table line, the newest at the right; heights are logarithmic."""
    runs = list(reversed(newest_first[:places]))
    longest = max((run.took or 0 for run in runs), default=0)
    shift = (places - len(runs)) * _STEP
    bars = [_bar(run, shift + n * _STEP, _log_height(run.took, longest)) for n, run in enumerate(runs)]
    return RunChart(tuple(bars), places * _STEP, _text(runs), length(longest) if longest else None)


def duration_chart(newest_first: Sequence[Outcome], timeout: Duration | None, places: int) -> RunChart:
    """Draw the durations of the last runs on a linear scale that includes the timeout if it is close."""
    runs = list(reversed(newest_first))
    longest = max((run.took or 0 for run in runs), default=0)
    near = timeout if timeout is not None and timeout <= 4 * longest else None
    scale = max(longest, near or 0, MILLISECOND)
    shift = max(0, places - len(runs)) * 10
    bars = [
        _bar(run, shift + n * 10, max(_LOWEST, round(_CHART_HEIGHT * (run.took or 0) / scale)))
        for n, run in enumerate(runs)
    ]
    bound = None if near is None else 100 - _CHART_HEIGHT * near / scale
    return RunChart(tuple(bars), places * 10, _text(runs), length(scale) if longest else None, bound)


def _bar(run: Outcome, x: int, height: int) -> RunBar:
    took = "" if run.took is None else f", {length(run.took)}"
    text = f"{plain_time(run.scheduled_at)}: {run.state}{took}"
    return RunBar(x, height, run.state.value, run.state in _MARKED, text, run.run_id)


def _log_height(took: Duration | None, longest: Duration) -> int:
    if not took or longest <= MILLISECOND:
        return _LOWEST
    share = math.log1p(took / MILLISECOND) / math.log1p(longest / MILLISECOND)
    return max(_LOWEST, round(_SPARK_HEIGHT * share))


def _text(runs: Sequence[Outcome]) -> str:
    if not runs:
        return "no runs yet"
    counts = Counter(run.state for run in runs)
    return ", ".join(f"{counts[state]} {state}" for state in RunState if counts[state])


@dataclass(frozen=True, slots=True)
class Health:
    """The results of runs in a period; `success` in percent, durations of the runs that started."""

    over: int
    success: float | None
    median: str | None
    p95: str | None
    started: int
    capped: bool


def health(runs: Sequence[Outcome], limit: int, now: Instant) -> Health:
    """Compute the figures of these runs, of which at most `limit` were read; `started`: within the last minute."""
    good = sum(run.state is RunState.COMPLETED for run in runs)
    bad = sum(run.state in (RunState.FAILED, RunState.MISSED) for run in runs)
    took = sorted(run.took for run in runs if run.took is not None)
    success = 100 * good / (good + bad) if good + bad else None
    started = sum(run.started_at is not None and run.started_at > now - MINUTE for run in runs)
    return Health(good + bad, success, _quantile(took, 0.5), _quantile(took, 0.95), started, len(runs) >= limit)


def _quantile(ordered: Sequence[Duration], share: float) -> str | None:
    return length(ordered[min(len(ordered) - 1, int(share * len(ordered)))]) if ordered else None
