"""Tables of queues as users describe and pause them, and of the version of these edits.

They belong to the metadata of tables.py. Promises that a row of `queues` exists only where somebody described or paused
the queue. Holds no statement.
"""

from typing import Final

from sqlalchemy import BigInteger, Column, Integer, Table, Text

from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.record_tables import leaderships
from scheduler_service.sql.tables import KEY

metadata: Final = leaderships.metadata

control: Final = Table(
    "control",
    metadata,
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
)

# Paused while `paused_at` is set and `paused_until` has not passed.
queues: Final = Table(
    "queues",
    metadata,
    Column("queue", KEY, primary_key=True),
    Column("description", Text, nullable=False),
    Column("pause_reason", Text),
    Column("paused_at", InstantColumn),
    Column("paused_by", Text),
    Column("paused_until", InstantColumn),
)
