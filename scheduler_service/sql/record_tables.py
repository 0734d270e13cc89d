"""Tables that only record: audit log, past terms, zone rules, figures, samples, logs; of the metadata of tables.py.

Promises that a row of `audit_log` is never changed, and not deleted for 90 days: triggers of the migration enforce it.
"""

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Identity, Index, Integer, LargeBinary, Table, Text

from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.tables import KEY, PAYLOAD, ROW_ID, metadata

audit_log: Final = Table(
    "audit_log",
    metadata,
    Column("id", ROW_ID, Identity(), primary_key=True),
    Column("at", InstantColumn, nullable=False),
    Column("actor", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", KEY),
    Column("before", PAYLOAD),
    Column("after", PAYLOAD),
)
Index("ix_audit_log_subject", audit_log.c.subject, audit_log.c.id)
Index("ix_audit_log_at", audit_log.c.at)
Index("ix_audit_log_action", audit_log.c.action, audit_log.c.id)
Index("ix_audit_log_actor", audit_log.c.actor, audit_log.c.id)

# A past term, written by the takeover that ended it; the present one is the row of `leases`.
leaderships: Final = Table(
    "leaderships",
    metadata,
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("term", BigInteger, primary_key=True, autoincrement=False),
    Column("holder", Text, nullable=False),
    Column("began_at", InstantColumn, nullable=False),
    Column("confirmed_at", InstantColumn, nullable=False),
    Column("ended_at", InstantColumn, nullable=False),
    Column("ending", Text, nullable=False),
    Column("zone_rules", Text),
)

# A set of zone files that a leader adopted; the oldest also decides before it was in force.
zone_rules: Final = Table(
    "zone_rules",
    metadata,
    Column("id", ROW_ID, Identity(), primary_key=True),
    Column("version", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("adopted_at", InstantColumn, nullable=False),
    Column("effective_from", InstantColumn, nullable=False),
    Column("files", Text, nullable=False),
)

# Written by leaders of the release before only, and read by nobody: the next release may drop it.
scheduler_statistics: Final = Table(
    "scheduler_statistics",
    metadata,
    Column("at", InstantColumn, primary_key=True, autoincrement=False),
    Column("active_runs", BigInteger, nullable=False),
    Column("index_runs", BigInteger, nullable=False),
    Column("lag", BigInteger, nullable=False),
)

# What the leader of a term counted from `at` on, in steps of 1 and of 10 minutes; `figures` as sql/samples.py reads it.
samples: Final = Table(
    "samples",
    metadata,
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("at", InstantColumn, primary_key=True, autoincrement=False),
    Column("term", BigInteger, primary_key=True, autoincrement=False),
    Column("version", Text, nullable=False),
    Column("figures", Text, nullable=False),
)

# The end of what an attempt wrote, compressed, and the number of characters that it wrote in all.
attempt_logs: Final = Table(
    "attempt_logs",
    metadata,
    Column("run_id", KEY, ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("end_position", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
