"""An index of the runs that run another one again, by that one: its page names them.

On PostgreSQL it is made beside running programs (CONCURRENTLY); one that was left half made is made anew.
"""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0038"
branch_labels = None
depends_on = None

_NAME = "ix_runs_again"
_WHERE = sa.text("retry_of IS NOT NULL")


def upgrade() -> None:
    """Make it."""
    if not _on_postgres():
        op.create_index(_NAME, "runs", ["retry_of", "id"], sqlite_where=_WHERE)
        return
    with op.get_context().autocommit_block():
        op.drop_index(_NAME, "runs", if_exists=True, postgresql_concurrently=True)
        op.create_index(_NAME, "runs", ["retry_of", "id"], postgresql_where=_WHERE, postgresql_concurrently=True)


def downgrade() -> None:
    """Drop it."""
    if not _on_postgres():
        op.drop_index(_NAME, "runs")
        return
    with op.get_context().autocommit_block():
        op.drop_index(_NAME, "runs", if_exists=True, postgresql_concurrently=True)


def _on_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"
