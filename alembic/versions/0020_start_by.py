"""By when a run must have started; few waiting runs have such a time, and an index of their own.

On PostgreSQL it is made beside running leaders (CONCURRENTLY); one that was left half made is made anew.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
INDEX = "ix_runs_start_by"
COLUMNS = ["start_by", "id"]
WHERE = sa.text("start_by IS NOT NULL AND standing = 'scheduled'")


def upgrade() -> None:
    """Runs so far may start as late as it takes."""
    if not _on_postgres():
        op.add_column("runs", sa.Column("start_by", INSTANT))
        op.create_index(INDEX, "runs", COLUMNS, sqlite_where=WHERE)
        return
    # A migration that was killed between the two is run again.
    op.add_column("runs", sa.Column("start_by", INSTANT), if_not_exists=True)
    with op.get_context().autocommit_block():
        op.drop_index(INDEX, "runs", if_exists=True, postgresql_concurrently=True)
        op.create_index(INDEX, "runs", COLUMNS, postgresql_where=WHERE, postgresql_concurrently=True)


def downgrade() -> None:
    """Forget it."""
    if not _on_postgres():
        op.drop_index(INDEX, "runs")
        op.drop_column("runs", "start_by")
        return
    with op.get_context().autocommit_block():
        op.drop_index(INDEX, "runs", if_exists=True, postgresql_concurrently=True)
    op.drop_column("runs", "start_by", if_exists=True)


def _on_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"
