"""When a run was last recalled from its queue; few runs ever are."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No run was so far."""
    instant = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
    op.add_column("runs", sa.Column("recalled_at", instant))


def downgrade() -> None:
    """Forget it."""
    op.drop_column("runs", "recalled_at")
