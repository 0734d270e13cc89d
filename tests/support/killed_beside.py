"""A round of what works beside a leader's loop, in a process of its own that is killed with -9 at a named point.

`python -m tests.support.killed_beside URL POINT` does it once. The points are calls to the stores: nothing in the
product knows of them.
"""

import os
import signal
import sys
from contextlib import closing

from sqlalchemy import event

from itinerary.protocol.instants import Duration
from scheduler_service.core.monitors.model import PingOutcome
from scheduler_service.core.notifications.topics import TOPICS
from scheduler_service.loops.pinger import Pinger
from scheduler_service.notify.ping_sender import sender_of
from scheduler_service.ports.pings import WaitingPing
from scheduler_service.sql.database import Database
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.monitors import SqlMonitorStore
from scheduler_service.sql.pings import SqlPingStore

HOLDER = "the killed one"


def die(*_: object) -> None:
    """As `kill -9` does it: nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


class Pings(SqlPingStore):
    """Dies at a point of a ping's life."""

    point = ""

    def claim(self, limit: int, hold: Duration) -> list[WaitingPing]:
        found = super().claim(limit, hold)
        if self.point == "claimed, not sent":
            die()
        return found

    def sent(self, waiting: WaitingPing) -> None:
        if self.point == "sent, not stored":
            die()
        super().sent(waiting)
        if self.point == "sent and stored":
            die()


class Monitors(SqlMonitorStore):
    """Dies between two monitors that are judged."""

    point = ""

    def _judged(self, monitor_id: str) -> bool:
        went_down = super()._judged(monitor_id)
        if self.point == "one judged, another not":
            die()
        return went_down


class NoMeter:
    """Counts nothing."""

    def pinged(self, outcome: str) -> None:
        """Nothing."""


def main(url: str, point: str) -> None:
    """Do the round, and die at the point."""
    with closing(Database(url, pool_size=4)) as database:
        pings, monitors = Pings(database), Monitors(database, TOPICS)
        pings.point = monitors.point = point
        if point.startswith(("claimed", "sent")):
            Pinger(SqlLeaseStore(database), pings, sender_of(True), NoMeter(), HOLDER).round()
            return
        if point.endswith("before COMMIT"):
            event.listen(database.engine, "commit", die)
        if point.startswith("pinged"):
            monitors.ping("a", "secret", PingOutcome.SUCCESS, None)
        else:
            monitors.judge(10)
        die()


if __name__ == "__main__":
    main(*sys.argv[1:])
