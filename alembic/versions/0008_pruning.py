"""Pruning: up to where history may be missing and when it was last swept; gaps are found by their end.

On PostgreSQL what was deleted or changed of runs is cleaned up at every fiftieth, not at every fifth: of five million
runs the default would let a million dead rows pile up first.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
TABLES = ("runs", "run_attempts")
FACTORS = ("autovacuum_vacuum_scale_factor", "autovacuum_analyze_scale_factor")


def upgrade() -> None:
    """Nothing was pruned so far."""
    op.add_column("cursors", sa.Column("pruned_until", INSTANT))
    op.add_column("cursors", sa.Column("swept_at", INSTANT))
    op.create_index("ix_gaps_ended", "gaps", ["end_at", "id"])
    if _on_postgres():
        for table in TABLES:
            op.execute(f"ALTER TABLE {table} SET ({', '.join(f'{factor} = 0.02' for factor in FACTORS)})")


def downgrade() -> None:
    """Forget it; what was pruned stays pruned."""
    if _on_postgres():
        for table in TABLES:
            op.execute(f"ALTER TABLE {table} RESET ({', '.join(FACTORS)})")
    op.drop_index("ix_gaps_ended", "gaps")
    op.drop_column("cursors", "swept_at")
    op.drop_column("cursors", "pruned_until")


def _on_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"
