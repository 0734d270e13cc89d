"""The tables of bulk operations and saved views; of the metadata of tables.py. Holds no statement."""

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Index, Table, Text

from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.sign_in_tables import sessions
from scheduler_service.sql.tables import KEY, PAYLOAD, partial_index

metadata: Final = sessions.metadata

# `place`: where the next page begins. `last_run`: the row id of the newest run when it began.
bulk_operations: Final = Table(
    "bulk_operations",
    metadata,
    Column("operation_id", KEY, primary_key=True),
    Column("subject", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("filter", PAYLOAD, nullable=False),
    Column("options", PAYLOAD, nullable=False),
    Column("limits", PAYLOAD, nullable=False),
    Column("actor", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("idempotency_key", Text),
    Column("request_hash", Text),
    Column("undo_of", KEY),
    Column("state", Text, nullable=False),
    Column("place", Text),
    Column("last_run", BigInteger, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("total_more", Boolean, nullable=False),
    Column("seen", BigInteger, nullable=False),
    Column("counts", PAYLOAD, nullable=False),
    Column("error", Text),
    Column("created_at", InstantColumn, nullable=False),
    Column("updated_at", InstantColumn, nullable=False),
    Column("finished_at", InstantColumn),
)
# `owner`: who alone sees it, empty for all.
saved_views: Final = Table(
    "saved_views",
    metadata,
    Column("owner", KEY, primary_key=True),
    Column("name", KEY, primary_key=True),
    Column("address", Text, nullable=False),
    Column("saved_by", Text, nullable=False),
    Column("updated_at", InstantColumn, nullable=False),
)
_B: Final = bulk_operations.c
UNFINISHED: Final = _B.finished_at.is_(None)
partial_index("uq_bulk_operations_key", _B.idempotency_key, where=_B.idempotency_key.is_not(None), unique=True)
partial_index("uq_bulk_operations_undo_of", _B.undo_of, where=_B.undo_of.is_not(None), unique=True)
partial_index("ix_bulk_operations_unfinished", _B.operation_id, where=UNFINISHED)
Index("ix_bulk_operations_finished", _B.finished_at)
Index("ix_bulk_operations_actor", _B.actor, _B.operation_id)
