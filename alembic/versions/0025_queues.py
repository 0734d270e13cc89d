"""Queues that users described or paused, the version of their edits, and whether the leader heeds it."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
KEY = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """No queue is paused so far. A leader of the release before never writes `controls_term`."""
    op.add_column("leases", sa.Column("controls_term", sa.BigInteger()))
    op.create_table(
        "control",
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("shard", name="pk_control"),
    )
    op.create_table(
        "queues",
        sa.Column("queue", KEY, nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("pause_reason", sa.Text()),
        sa.Column("paused_at", INSTANT),
        sa.Column("paused_by", sa.Text()),
        sa.Column("paused_until", INSTANT),
        sa.PrimaryKeyConstraint("queue", name="pk_queues"),
    )


def downgrade() -> None:
    """Forget them: a paused queue goes on."""
    op.drop_table("queues")
    op.drop_table("control")
    op.drop_column("leases", "controls_term")
