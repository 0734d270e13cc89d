"""Pruning: up to where history may be missing and when it was last swept; gaps are found by their end."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    """Nothing was pruned so far."""
    op.add_column("cursors", sa.Column("pruned_until", INSTANT))
    op.add_column("cursors", sa.Column("swept_at", INSTANT))
    op.create_index("ix_gaps_ended", "gaps", ["end_at", "id"])


def downgrade() -> None:
    """Forget it; what was pruned stays pruned."""
    op.drop_index("ix_gaps_ended", "gaps")
    op.drop_column("cursors", "swept_at")
    op.drop_column("cursors", "pruned_until")
