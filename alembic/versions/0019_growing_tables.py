"""Indexes for what is asked of growing tables: the audit log by action and by actor, messages that ended, deleted jobs.

On PostgreSQL they are made beside running programs (CONCURRENTLY); one that was left half made is made anew.
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

INDEXES = {
    "ix_audit_log_action": ("audit_log", ["action", "id"], None),
    "ix_audit_log_actor": ("audit_log", ["actor", "id"], None),
    "ix_deliveries_ended": ("deliveries", ["ended_at"], "ended_at IS NOT NULL"),
    "ix_jobs_deleted": ("jobs", ["effective_from", "job_id"], "deleted = true"),
}


def upgrade() -> None:
    """Make them."""
    for name, (table, columns, where) in INDEXES.items():
        if not _on_postgres():
            # SQLite has no booleans, and knows an index again by the very words of its condition.
            words = "deleted = 1" if where == "deleted = true" else where
            op.create_index(name, table, columns, sqlite_where=None if words is None else sa.text(words))
            continue
        condition = None if where is None else sa.text(where)
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
