"""Freezes, and runs that no freeze holds."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
PAYLOAD = sa.Text().with_variant(postgresql.JSON(), "postgresql")
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Nothing is frozen so far, and no run was forced."""
    op.add_column("runs", sa.Column("forced", sa.Boolean()))
    op.create_table(
        "freezes",
        sa.Column("id", ROW_ID, sa.Identity(), nullable=False),
        sa.Column("scope", PAYLOAD, nullable=False),
        sa.Column("during", sa.Text(), nullable=False),
        sa.Column("starts_at", INSTANT, nullable=False),
        sa.Column("until", INSTANT),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("ended_at", INSTANT),
        sa.Column("ended_by", sa.Text()),
        sa.Column("ends_at", INSTANT),
        sa.PrimaryKeyConstraint("id", name="pk_freezes"),
    )
    op.create_index("ix_freezes_ends_at", "freezes", ["ends_at", "id"])


def downgrade() -> None:
    """Forget them: what is frozen goes on."""
    op.drop_index("ix_freezes_ends_at", "freezes")
    op.drop_table("freezes")
    op.drop_column("runs", "forced")
