"""A leader's own writes, beside an API over the same database."""

from scheduler_service.adapters.database import Database
from scheduler_service.adapters.sql_leader import SqlLeaderStore
from scheduler_service.adapters.sql_lease import SqlLeaseStore
from scheduler_service.core.instants import MINUTE
from scheduler_service.core.model import Lease


class Led:
    """Leads from the beginning, for a minute."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.leases = SqlLeaseStore(database)
        self.store = SqlLeaderStore(database)
        self.lease = self.lead("one")

    def lead(self, holder: str) -> Lease:
        lease = self.leases.acquire(0, holder, MINUTE)
        assert lease is not None
        self.store.cursor(lease)
        return lease
