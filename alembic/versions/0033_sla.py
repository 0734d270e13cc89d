"""By when a run must be over, and whether it was; two small indexes, of runs to be judged and of runs that were late.

On PostgreSQL they are made beside running leaders (CONCURRENTLY); one that was left half made is made anew.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0033"
down_revision = "0034"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
COLUMNS = {"end_by": INSTANT, "sla_missed": sa.Boolean()}
INDEXES = {
    "ix_runs_end_by": "end_by IS NOT NULL AND sla_missed IS NULL",
    "ix_runs_sla_missed": "sla_missed = true",
}


def upgrade() -> None:
    """Runs so far may end as late as it takes."""
    if not _on_postgres():
        for name, kind in COLUMNS.items():
            op.add_column("runs", sa.Column(name, kind))
        for index, where in INDEXES.items():
            op.create_index(index, "runs", ["end_by", "id"], sqlite_where=sa.text(where.replace("true", "1")))
        return
    # A migration that was killed between the two is run again.
    for name, kind in COLUMNS.items():
        op.add_column("runs", sa.Column(name, kind), if_not_exists=True)
    with op.get_context().autocommit_block():
        for index, where in INDEXES.items():
            op.drop_index(index, "runs", if_exists=True, postgresql_concurrently=True)
            op.create_index(
                index, "runs", ["end_by", "id"], postgresql_where=sa.text(where), postgresql_concurrently=True
            )


def downgrade() -> None:
    """Forget it, and its notices: a notifier of the program before ends at a topic that it does not know."""
    for table in ("notices", "deliveries"):
        op.execute(f"DELETE FROM {table} WHERE topic = 'run.sla_missed'")
    if not _on_postgres():
        for index in INDEXES:
            op.drop_index(index, "runs")
        for name in COLUMNS:
            op.drop_column("runs", name)
        return
    with op.get_context().autocommit_block():
        for index in INDEXES:
            op.drop_index(index, "runs", if_exists=True, postgresql_concurrently=True)
    for name in COLUMNS:
        op.drop_column("runs", name, if_exists=True)


def _on_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"
