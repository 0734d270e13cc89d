"""Runs that are out and not wanted any more have an index of their own: looking for them walks past no other run.

On PostgreSQL it is made beside running leaders (CONCURRENTLY); one that was left half made is made anew.
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

INDEX = "ix_runs_unwanted"
COLUMNS = ["cancel_requested_at", "id"]
WHERE = sa.text("standing = 'led' AND cancel_requested_at IS NOT NULL")


def upgrade() -> None:
    """Make it."""
    if not _on_postgres():
        op.create_index(INDEX, "runs", COLUMNS, sqlite_where=WHERE)
        return
    with op.get_context().autocommit_block():
        op.drop_index(INDEX, "runs", if_exists=True, postgresql_concurrently=True)
        op.create_index(INDEX, "runs", COLUMNS, postgresql_where=WHERE, postgresql_concurrently=True)


def downgrade() -> None:
    """Drop it."""
    if not _on_postgres():
        op.drop_index(INDEX, "runs")
        return
    with op.get_context().autocommit_block():
        op.drop_index(INDEX, "runs", if_exists=True, postgresql_concurrently=True)


def _on_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"
