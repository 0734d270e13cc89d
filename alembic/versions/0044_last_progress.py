"""The last progress that an attempt showed, kept with its end."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

PAYLOAD = sa.Text().with_variant(postgresql.JSON(), "postgresql")


def upgrade() -> None:
    """Attempts that are over showed what nobody kept."""
    for table in ("runs", "run_attempts"):
        op.add_column(table, sa.Column("progress", PAYLOAD))


def downgrade() -> None:
    """Forget it."""
    for table in ("run_attempts", "runs"):
        op.drop_column(table, "progress")
