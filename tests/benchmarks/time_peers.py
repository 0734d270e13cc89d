"""What the suite `time` is measured beside: croniter, cronsim, and an index of plain Python."""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime, timedelta

from croniter import croniter
from cronsim import CronSim


def croniter_hour(lines: Sequence[str], start: datetime) -> int:
    """How many runs croniter finds in the hour from `start`, line by line."""
    end, found = start + timedelta(hours=1), 0
    for line in lines:
        runs = croniter(line, start - timedelta(seconds=1))
        while runs.get_next(datetime) < end:
            found += 1
    return found


def cronsim_hour(lines: Sequence[str], start: datetime) -> int:
    """How many runs cronsim finds in the hour from `start`, line by line."""
    end, found = start + timedelta(hours=1), 0
    for line in lines:
        for run in CronSim(line, start - timedelta(seconds=1)):
            if run >= end:
                break
            found += 1
    return found


class PlainIndex:
    """An index as one writes it at first: a sorted list of (time, job id), searched by bisection."""

    def __init__(self, runs: list[tuple[int, str]]) -> None:
        self.runs = sorted(runs)

    def query(self, start: int, end: int) -> list[tuple[int, str]]:
        """The runs in [start, end)."""
        return self.runs[bisect_left(self.runs, (start, "")) : bisect_left(self.runs, (end, ""))]
