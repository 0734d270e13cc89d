"""The leader and its answer: the lease in the database beside the leader's own figures; and times without a leader.

Promises that the figures are of the holder that the lease names. Never keeps anything.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from itinerary.protocol.instants import SECOND, Instant
from scheduler_service.api.http.problems import Problem
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.ports.leases import LeaseStore, LeaseView
from scheduler_service.ports.samples import Term

_ABSENT: Final = 2 * SECOND


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


def absences(terms: Sequence[Term]) -> Iterator[tuple[Instant, Instant, int]]:
    """Yield the times between terms, the newest first, in which nobody led, each with the term that ended it."""
    for newer, older in pairwise(terms):
        if older.confirmed_at is not None and newer.began_at - older.confirmed_at > _ABSENT:
            yield older.confirmed_at, newer.began_at, newer.term
