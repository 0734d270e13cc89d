"""The zone rules that the installation adopted."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0030"
down_revision = "0028"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """None so far: the next leader adopts its own."""
    op.create_table(
        "zone_rules",
        sa.Column("id", ROW_ID, sa.Identity(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("adopted_at", INSTANT, nullable=False),
        sa.Column("effective_from", INSTANT, nullable=False),
        sa.Column("files", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_zone_rules"),
    )


def downgrade() -> None:
    """Forget them: each leader plans by its own."""
    op.drop_table("zone_rules")
