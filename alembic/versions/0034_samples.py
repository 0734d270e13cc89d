"""Samples: the counts of leaders, minute by minute."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0034"
down_revision = "0036"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    """Nothing was counted so far."""
    op.create_table(
        "samples",
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("figures", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("step", "at", "term", name="pk_samples"),
    )


def downgrade() -> None:
    """Forget them."""
    op.drop_table("samples")
