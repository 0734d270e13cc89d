"""Retention: which past rows may be deleted, and how many at a time. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from itinerary.protocol.instants import DAY, MILLISECOND, Duration, Instant
from scheduler_service.core.freezes import FREEZES_KEPT

AUDIT_KEPT: Final = 90 * DAY
"""The database refuses to delete a younger row of the audit log."""
_STRIDE: Final = DAY
_LONG: Final = 50 * MILLISECOND
# Fewer would hardly be faster: then the commit takes long, or the machine is busy.
_FEWEST, _MOST = 500, 1_000
_REST, _LONGEST_REST = 2, 100 * MILLISECOND


class Past(StrEnum):
    """The tables that grow with time and are pruned; rows that depend on a row are deleted with it."""

    RUNS = "runs"
    GAPS = "gaps"
    AUDIT_LOG = "audit_log"
    LEADERSHIPS = "leaderships"
    FREEZES = "freezes"
    CALENDAR_VERSIONS = "calendar_versions"
    SESSIONS = "sessions"
    SHARE_LINKS = "share_links"
    JOB_VERSIONS = "job_versions"
    JOBS = "jobs"


@dataclass(frozen=True, slots=True)
class Needs:
    """The past that planning still needs: the cursor, and the start of the oldest version that waits to be planned.

    `now` is the database's clock. `history_since` is the end of the pruned history; before the first time, the due time
    of the oldest run; None if there is neither.
    """

    now: Instant
    cursor: Instant | None
    unplanned_since: Instant | None
    history_since: Instant | None


def horizon(needs: Needs, host_now: Instant, kept: Duration) -> Instant | None:
    """Return the instant before which finished history may be deleted; None if nothing may.

    Both clocks must agree that it is old: if there are two, one that jumped ahead destroys nothing. Nothing that could
    be planned again is deleted, since its row records that it was: an unplanned version reaches back to its beginning.
    """
    if needs.cursor is None:
        return None
    oldest_needed = needs.cursor if needs.unplanned_since is None else min(needs.cursor, needs.unplanned_since)
    return min(min(needs.now, host_now) - kept, oldest_needed)


def next_horizon(needs: Needs, host_now: Instant, kept: Duration) -> Instant | None:
    """Return the horizon of one automatic sweep: at most a day further than the last one.

    The two clocks are often one. If it jumps years ahead, each sweep destroys only a day of the oldest history until it
    is set right.
    """
    wanted = horizon(needs, host_now, kept)
    if wanted is None or needs.history_since is None:
        return None
    return min(wanted, needs.history_since + _STRIDE)


def horizon_of(past: Past, before: Instant, kept: Duration) -> Instant:
    """Return the horizon of one table; `before` is that of runs."""
    match past:
        case Past.AUDIT_LOG:
            return before - max(0, AUDIT_KEPT - kept)
        case Past.FREEZES:
            return before - FREEZES_KEPT
        case _:
            return before


@dataclass(frozen=True, slots=True)
class Pace:
    """The number of rows that the next transaction deletes: about as many as take 50 ms, within bounds."""

    rows: int = _FEWEST

    def after(self, took: Duration) -> "Pace":
        """Return the pace after a transaction of so many rows took so long."""
        return Pace(min(_MOST, max(_FEWEST, self.rows * _LONG // max(took, 1))))

    @staticmethod
    def rest(took: Duration) -> Duration:
        """Return how long to leave the database to others before the next transaction."""
        return min(_REST * took, _LONGEST_REST)
