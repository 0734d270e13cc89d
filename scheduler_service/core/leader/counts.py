"""The names of the counters that the loop keeps for the metrics. mypy finds a name that no metric shows."""

from typing import Literal

CountName = Literal["ignored", "stale", "skip", "misfire", "republished", "lost", "placed", "rebalanced"]
