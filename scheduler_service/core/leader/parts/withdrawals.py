"""Runs that the leader withdraws: it asks for their claim, so that no worker can start them."""

from scheduler_service.core.leader.asked_claims import AskedClaims


class Withdrawals(AskedClaims):
    """Runs whose claim is asked for."""
