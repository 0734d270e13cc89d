"""Planned occurrences that wait in paused queues, by queue and job."""

from scheduler_service.core.leader.held_back import HeldBack


class PausedOccurrences(HeldBack[str]):
    """Occurrences that wait for the resume of a queue. Other runs of it stay in the queue's heap."""
