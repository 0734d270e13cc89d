"""Saved views: addresses of lists under names."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0042"
down_revision = "0040"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
KEY = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """There are none yet."""
    op.create_table(
        "saved_views",
        sa.Column("owner", KEY, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("saved_by", sa.Text(), nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("owner", "name", name="pk_saved_views"),
    )


def downgrade() -> None:
    """Forget them."""
    op.drop_table("saved_views")
