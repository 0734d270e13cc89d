"""Tables of notifications: notices to report, and deliveries in progress, ended or dead; indexes of SLAs.

`metadata` has the tables of all six modules: import it from here.
"""

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Integer, Table, Text, and_, literal_column, true

from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.monitor_tables import monitors
from scheduler_service.sql.tables import KEY, PAYLOAD, partial_index, runs

metadata: Final = monitors.metadata

# One row for each topic and subject, with the `count` not yet reported. `holds`: a condition that held at the last
# poll.
notices: Final = Table(
    "notices",
    metadata,
    Column("topic", KEY, primary_key=True),
    Column("subject", KEY, primary_key=True),
    Column("count", BigInteger, nullable=False),
    Column("first_at", InstantColumn, nullable=False),
    Column("last_at", InstantColumn, nullable=False),
    Column("said", PAYLOAD, nullable=False),
    Column("holds", Boolean, nullable=False),
    Column("told_at", InstantColumn),
)

# One row for each message and target. `next_at`: the time of the next try; none once it is over.
deliveries: Final = Table(
    "deliveries",
    metadata,
    Column("message_id", KEY, primary_key=True),
    Column("target", KEY, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("made_at", InstantColumn, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", InstantColumn),
    Column("ended_at", InstantColumn),
    Column("state", Text, nullable=False),
    Column("said", Text),
)

# Pings to be sent: the newest of each job and event, so it never grows beyond the jobs.
pings: Final = Table(
    "pings",
    metadata,
    Column("job_id", KEY, primary_key=True),
    Column("state", KEY, primary_key=True),
    Column("url", Text, nullable=False),
    Column("made_at", InstantColumn, nullable=False),
    Column("next_at", InstantColumn, nullable=False, index=True),
    Column("attempts", Integer, nullable=False),
)

UNREPORTED: Final = notices.c["count"] > literal_column("0")
partial_index("ix_notices_untold", notices.c.first_at, where=UNREPORTED)
partial_index("ix_deliveries_waiting", deliveries.c.next_at, where=deliveries.c.next_at.is_not(None))
partial_index("ix_deliveries_ended", deliveries.c.ended_at, where=deliveries.c.ended_at.is_not(None))
partial_index("ix_deliveries_dead", deliveries.c.ended_at, where=deliveries.c.state == literal_column("'dead'"))

# Runs with an SLA that nobody judged yet: each leaves the index once its time has come.
HAS_SLA: Final = and_(runs.c.end_by.is_not(None), runs.c.sla_missed.is_(None))
MISSED_SLA: Final = runs.c.sla_missed == true()
partial_index("ix_runs_end_by", runs.c.end_by, runs.c.id, where=HAS_SLA)
partial_index("ix_runs_sla_missed", runs.c.end_by, runs.c.id, where=MISSED_SLA)
