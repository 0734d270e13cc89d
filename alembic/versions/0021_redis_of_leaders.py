"""That a leader cannot reach Redis, and that a standby can: each as of its last word."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    """Nobody has said either so far."""
    op.add_column("leases", sa.Column("without_redis_at", INSTANT))
    op.add_column("leases", sa.Column("relief_at", INSTANT))


def downgrade() -> None:
    """Forget both."""
    op.drop_column("leases", "relief_at")
    op.drop_column("leases", "without_redis_at")
