"""Up to where due runs were judged: what waits since then is not late, whoever leads."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    """Nothing was judged so far, as far as we know."""
    op.add_column("cursors", sa.Column("judged_until", INSTANT))


def downgrade() -> None:
    """Forget it."""
    op.drop_column("cursors", "judged_until")
