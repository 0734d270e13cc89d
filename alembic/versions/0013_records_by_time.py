"""The audit log by time; and what was run again by hand, by its job: few rows, which a backfill looks for.

On PostgreSQL they are made beside running programs (CONCURRENTLY); one that was left half made is made anew.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

INDEXES = {
    "ix_audit_log_at": ("audit_log", ["at"], None),
    "ix_runs_tried_again": ("runs", ["job_id", "scheduled_at"], "retry_of IS NOT NULL"),
}


def upgrade() -> None:
    """Make them."""
    for name, (table, columns, where) in INDEXES.items():
        condition = None if where is None else sa.text(where)
        if not _on_postgres():
            op.create_index(name, table, columns, sqlite_where=condition)
            continue
        with op.get_context().autocommit_block():
            op.drop_index(name, table, if_exists=True, postgresql_concurrently=True)
            op.create_index(name, table, columns, postgresql_where=condition, postgresql_concurrently=True)


def downgrade() -> None:
    """Drop them."""
    for name, (table, _, _) in reversed(INDEXES.items()):
        if not _on_postgres():
            op.drop_index(name, table)
            continue
        with op.get_context().autocommit_block():
            op.drop_index(name, table, if_exists=True, postgresql_concurrently=True)


def _on_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"
