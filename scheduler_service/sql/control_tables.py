"""Tables of queues, limits, freezes and calendars, of the jobs that name them, of the version of edits, and of starts.

They belong to the metadata of tables.py. Promises that a row of `queues` exists only where somebody defined or paused
the queue. Holds no statement.
"""

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Identity, Index, Integer, LargeBinary, Table, Text, false

from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.record_tables import leaderships
from scheduler_service.sql.tables import KEY, PAYLOAD, ROW_ID

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
    Column("concurrency", Integer),
    Column("rate_count", Integer),
    Column("rate_per", BigInteger),
    Column("fair", Boolean, nullable=False, server_default=false()),
)

# `ends_at`: the sooner of `until` and `ended_at`; one that ends before it starts has never held.
freezes: Final = Table(
    "freezes",
    metadata,
    Column("id", ROW_ID, Identity(), primary_key=True),
    Column("scope", PAYLOAD, nullable=False),
    Column("during", Text, nullable=False),
    Column("starts_at", InstantColumn, nullable=False),
    Column("until", InstantColumn),
    Column("reason", Text, nullable=False),
    Column("created_at", InstantColumn, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("ended_at", InstantColumn),
    Column("ended_by", Text),
    Column("ends_at", InstantColumn),
)
Index("ix_freezes_ends_at", freezes.c.ends_at, freezes.c.id)

limits: Final = Table(
    "limits",
    metadata,
    Column("name", KEY, primary_key=True),
    Column("concurrency", Integer),
    Column("rate_count", Integer),
    Column("rate_per", BigInteger),
    Column("per_key", Boolean, nullable=False),
    Column("overrides", PAYLOAD, nullable=False),
    Column("description", Text, nullable=False),
    Column("created_at", InstantColumn, nullable=False),
    Column("updated_at", InstantColumn, nullable=False),
)

# Which current jobs name a limit: found without reading definitions.
job_limits: Final = Table(
    "job_limits",
    metadata,
    Column("limit_name", KEY, primary_key=True),
    Column("job_id", KEY, primary_key=True),
)
Index("ix_job_limits_job", job_limits.c.job_id)

# Starts that were reported to the leader, for each rate: `count` of them by `at`. Without keys, the key is ''.
limit_starts: Final = Table(
    "limit_starts",
    metadata,
    Column("id", ROW_ID, Identity(), primary_key=True),
    Column("limit_name", KEY, nullable=False),
    Column("limit_key", KEY, nullable=False),
    Column("at", InstantColumn, nullable=False),
    Column("count", Integer, nullable=False),
)
Index("ix_limit_starts_limit", limit_starts.c.limit_name, limit_starts.c.at, limit_starts.c.id)

calendars: Final = Table(
    "calendars",
    metadata,
    Column("calendar_id", KEY, primary_key=True),
    Column("definition", PAYLOAD, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", InstantColumn, nullable=False),
    Column("updated_at", InstantColumn, nullable=False),
)

# `revision`: the version of all edits that this one made; 0 where no job used the calendar then.
# `ended_at`: when the next version begins, or the calendar was deleted. Rows outlive their calendar, as runs their job.
calendar_versions: Final = Table(
    "calendar_versions",
    metadata,
    Column("calendar_id", KEY, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("definition", PAYLOAD, nullable=False),
    Column("compiled", PAYLOAD, nullable=False),
    Column("effective_from", InstantColumn, nullable=False),
    Column("ended_at", InstantColumn),
    Column("created_at", InstantColumn, nullable=False),
    Column("actor", Text, nullable=False),
)
Index("ix_calendar_versions_revision", calendar_versions.c.revision)
Index(
    "ix_calendar_versions_ended",
    calendar_versions.c.ended_at,
    calendar_versions.c.calendar_id,
    calendar_versions.c.version,
)

# Which current jobs name a calendar, as `job_limits`; `by_days`: the job moves days, and needs whole days of its zone.
job_calendars: Final = Table(
    "job_calendars",
    metadata,
    Column("calendar_id", KEY, primary_key=True),
    Column("job_id", KEY, primary_key=True),
    Column("by_days", Boolean, nullable=False),
)
Index("ix_job_calendars_job", job_calendars.c.job_id)

# The files and rules that calendars are written out from; `url` is '' for what needs no fetch. `body` is compressed.
calendar_feeds: Final = Table(
    "calendar_feeds",
    metadata,
    Column("calendar_id", KEY, primary_key=True),
    Column("url", KEY, primary_key=True),
    Column("next_at", InstantColumn, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("etag", Text),
    Column("last_modified", Text),
    Column("fetched_at", InstantColumn),
    Column("good_at", InstantColumn),
    Column("error", Text),
    Column("failing_since", InstantColumn),
)
Index("ix_calendar_feeds_next", calendar_feeds.c.next_at)
