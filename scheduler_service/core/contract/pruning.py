"""What of the past may go, and how much of it at a time. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from itinerary.protocol.instants import DAY, MILLISECOND, Duration, Instant

AUDIT_KEPT: Final = 90 * DAY
"""The database refuses to delete a younger row of the audit log."""
_STRIDE: Final = DAY
_LONG: Final = 50 * MILLISECOND
# Fewer would not be done much sooner: then it is the commit that takes long, or the machine is busy.
_FEWEST, _MOST = 500, 1_000
_REST, _LONGEST_REST = 2, 100 * MILLISECOND


class Past(StrEnum):
    """The tables that grow with time and are pruned; what hangs on a row goes with it."""

    RUNS = "runs"
    GAPS = "gaps"
    AUDIT_LOG = "audit_log"
    LEADERSHIPS = "leaderships"
    JOB_VERSIONS = "job_versions"
    JOBS = "jobs"


@dataclass(frozen=True, slots=True)
class Needs:
    """What planning may still look back to: the cursor, and since when a version waits to be planned.

    `now` is the database's clock. `history_since` is up to where history was pruned; before the first time, when the
    oldest run was due; None where there is neither.
    """

    now: Instant
    cursor: Instant | None
    unplanned_since: Instant | None
    history_since: Instant | None


def horizon(needs: Needs, host_now: Instant, kept: Duration) -> Instant | None:
    """What is over before this may go; None where nothing may.

    Both clocks must say that it is old: where there are two, one that jumped ahead destroys nothing. Nothing goes that
    could be planned again, since its row is what says that it was: a version that is not planned yet reaches back to
    where it began.
    """
    if needs.cursor is None:
        return None
    oldest_needed = needs.cursor if needs.unplanned_since is None else min(needs.cursor, needs.unplanned_since)
    return min(min(needs.now, host_now) - kept, oldest_needed)


def next_horizon(needs: Needs, host_now: Instant, kept: Duration) -> Instant | None:
    """The horizon of one sweep that nobody looks at: at most a day further than the last one.

    The two clocks are often one. One that jumps years ahead then destroys a day of the oldest history each sweep, until
    it is set right, and no more.
    """
    wanted = horizon(needs, host_now, kept)
    if wanted is None or needs.history_since is None:
        return None
    return min(wanted, needs.history_since + _STRIDE)


def horizon_of(past: Past, before: Instant, kept: Duration) -> Instant:
    """The horizon of one table, of which `before` is that of runs."""
    return before if past is not Past.AUDIT_LOG else before - max(0, AUDIT_KEPT - kept)


@dataclass(frozen=True, slots=True)
class Pace:
    """How many rows the next transaction deletes: about as many as take 50 ms, within bounds."""

    rows: int = _FEWEST

    def after(self, took: Duration) -> "Pace":
        """The pace after a transaction of so many rows took so long."""
        return Pace(min(_MOST, max(_FEWEST, self.rows * _LONG // max(took, 1))))

    @staticmethod
    def rest(took: Duration) -> Duration:
        """How long to leave the database to others then."""
        return min(_REST * took, _LONGEST_REST)
