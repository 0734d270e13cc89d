"""The leader and its answer: the lease in the database beside the leader's own figures.

Promises that the figures are of the holder that the lease names. Never keeps anything.
"""

from collections.abc import Mapping
from typing import Any

from scheduler_service.api.http.problems import Problem
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.ports.leases import LeaseStore, LeaseView


def ask_holder(leases: LeaseStore, leader: LeaderLine) -> tuple[LeaseView | None, Mapping[str, Any] | None]:
    """Return the lease, and the figures of its holder; None if there is no holder or it does not answer.

    A standby that took over meanwhile answers a question to the previous leader, from the same inbox.
    """
    lease = leases.peek(0)
    if lease is None or not lease.live:
        return lease, None
    try:
        figures = leader.ask("statistics")
    except Problem:
        figures = None  # by the database it leads, but it has just ended, is suspended or has no Redis
    lease = leases.peek(0)  # asking took up to a second, in which it may have lapsed or been taken
    if lease is None or not lease.live or figures is None or figures.get("term") != lease.term:
        return lease, None
    return lease, figures
