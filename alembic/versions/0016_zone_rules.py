"""Which zone rules each term plans by, and those of a standby that has others."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    """Unknown of the terms so far."""
    op.add_column("leases", sa.Column("zone_rules", sa.Text))
    op.add_column("leases", sa.Column("standby_zone_rules", sa.Text))
    op.add_column("leases", sa.Column("standby_seen_at", INSTANT))
    op.add_column("leaderships", sa.Column("zone_rules", sa.Text))


def downgrade() -> None:
    """Forget them."""
    op.drop_column("leaderships", "zone_rules")
    op.drop_column("leases", "standby_seen_at")
    op.drop_column("leases", "standby_zone_rules")
    op.drop_column("leases", "zone_rules")
