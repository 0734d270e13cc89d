"""Runs that a token of the role enqueuer made name it, so that it finds its own and nobody else's.

NULL for every other run: the column and its index cost those nothing. On PostgreSQL the index is made beside running
leaders (CONCURRENTLY); one that was left half made is made anew.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

INDEX = "ix_runs_of_owner"
COLUMNS = ["owner", "scheduled_at", "id"]
WHERE = sa.text("owner IS NOT NULL")


def upgrade() -> None:
    """Add the column, then its index."""
    if not _on_postgres():
        op.add_column("runs", sa.Column("owner", sa.Text()))
        op.create_index(INDEX, "runs", COLUMNS, sqlite_where=WHERE)
        return
    op.execute("ALTER TABLE runs ADD COLUMN IF NOT EXISTS owner text")
    with op.get_context().autocommit_block():
        op.drop_index(INDEX, "runs", if_exists=True, postgresql_concurrently=True)
        op.create_index(INDEX, "runs", COLUMNS, postgresql_where=WHERE, postgresql_concurrently=True)


def downgrade() -> None:
    """Drop both."""
    if not _on_postgres():
        op.drop_index(INDEX, "runs")
        op.drop_column("runs", "owner")
        return
    with op.get_context().autocommit_block():
        op.drop_index(INDEX, "runs", if_exists=True, postgresql_concurrently=True)
    op.drop_column("runs", "owner")


def _on_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"
