"""Messages that the leader recalls from their queues: it asks for the mark that makes them start nothing."""

from scheduler_service.core.leader.asked_claims import AskedClaims


class Recalls(AskedClaims):
    """Runs whose mark is asked for."""
