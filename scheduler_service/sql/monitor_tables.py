"""Tables of monitors and of their last pings."""

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Identity, Index, Integer, Table, Text

from scheduler_service.sql.bulk_tables import bulk_operations
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.tables import KEY, PAYLOAD, ROW_ID, partial_index

metadata: Final = bulk_operations.metadata

monitors: Final = Table(
    "monitors",
    metadata,
    Column("monitor_id", KEY, primary_key=True),
    Column("definition", PAYLOAD, nullable=False),
    Column("version", Integer, nullable=False),
    Column("token", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", InstantColumn, nullable=False),
    Column("updated_at", InstantColumn, nullable=False),
    Column("expected_at", InstantColumn),
    Column("alert_at", InstantColumn),
    Column("started_at", InstantColumn),
    Column("last_ping_at", InstantColumn),
    Column("last_outcome", Text),
    Column("last_duration", BigInteger),
    Column("source", Text),
)

# The newest of each monitor; a ping deletes what is beyond.
monitor_pings: Final = Table(
    "monitor_pings",
    metadata,
    Column("id", ROW_ID, Identity(), primary_key=True),
    Column("monitor_id", KEY, ForeignKey("monitors.monitor_id"), nullable=False),
    Column("at", InstantColumn, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("duration", BigInteger),
)

partial_index("ix_monitors_alert_at", monitors.c.alert_at, where=monitors.c.alert_at.is_not(None))
Index("ix_monitor_pings_of_monitor", monitor_pings.c.monitor_id, monitor_pings.c.id)
