"""A leader's own writes, beside an API over the same database."""

from itinerary.protocol.instants import HOUR
from scheduler_service.core.model import Lease
from scheduler_service.sql.database import Database
from scheduler_service.sql.leader.store import SqlLeaderStore
from scheduler_service.sql.lease import SqlLeaseStore


class Led:
    """Leads from the beginning, for longer than any test takes."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.leases = SqlLeaseStore(database)
        self.store = SqlLeaderStore(database)
        self.lease = self.lead("one")

    def lead(self, holder: str) -> Lease:
        lease = self.leases.acquire(0, holder, HOUR)
        assert lease is not None
        self.store.cursor(lease)
        return lease
