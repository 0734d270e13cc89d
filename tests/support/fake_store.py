"""All stores in memory over the same tables: what tests of the core and the loops use instead of a database."""

from collections.abc import Callable

from itinerary.protocol.instants import Instant
from tests.support.fake_calendars import FakeCalendarStore
from tests.support.fake_freezes import FakeFreezeStore
from tests.support.fake_history import FakeHistoryStore
from tests.support.fake_jobs import FakeJobStore
from tests.support.fake_leader import FakeLeaderStore
from tests.support.fake_lease import FakeLeaseStore
from tests.support.fake_limits import FakeLimitStore
from tests.support.fake_queues import FakeQueueStore
from tests.support.fake_rows import Tables
from tests.support.fake_runs import FakeRunStore
from tests.support.fake_zone_rules import FakeZoneRulesStore


class FakeStore:
    """The stores; `clock` is the database's clock."""

    def __init__(self, clock: Callable[[], Instant]) -> None:
        self.tables = Tables(clock)
        self.leases = FakeLeaseStore(self.tables)
        self.leader = FakeLeaderStore(self.tables)
        self.jobs = FakeJobStore(self.tables)
        self.runs = FakeRunStore(self.tables)
        self.history = FakeHistoryStore(self.tables)
        self.queues = FakeQueueStore(self.tables)
        self.limits = FakeLimitStore(self.tables)
        self.freezes = FakeFreezeStore(self.tables)
        self.calendars = FakeCalendarStore(self.tables)
        self.zone_rules = FakeZoneRulesStore(self.tables)
