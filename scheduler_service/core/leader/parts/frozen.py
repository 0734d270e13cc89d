"""Runs that freezes hold back, by freeze and job."""

from scheduler_service.core.leader.held_back import HeldBack


class FrozenRuns(HeldBack[int]):
    """Runs that wait for the end of a freeze."""
