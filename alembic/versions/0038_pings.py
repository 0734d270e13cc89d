"""Pings of jobs to be sent: the newest of each job and event."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0038"
down_revision = "0035"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
KEY = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """No job has pings yet."""
    op.create_table(
        "pings",
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("state", KEY, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("made_at", INSTANT, nullable=False),
        sa.Column("next_at", INSTANT, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "state", name="pk_pings"),
    )
    op.create_index("ix_pings_made_at", "pings", ["made_at"])


def downgrade() -> None:
    """Those that wait are lost."""
    op.drop_table("pings")
