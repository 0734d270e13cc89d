"""What is to be told (notices) and what is on its way to whom (deliveries)."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
PAYLOAD = sa.Text().with_variant(postgresql.JSON(), "postgresql")
INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    """Make the tables and their indexes."""
    op.create_table(
        "notices",
        sa.Column("topic", KEY, nullable=False),
        sa.Column("subject", KEY, nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("first_at", INSTANT, nullable=False),
        sa.Column("last_at", INSTANT, nullable=False),
        sa.Column("said", PAYLOAD, nullable=False),
        sa.Column("holds", sa.Boolean(), nullable=False),
        sa.Column("told_at", INSTANT),
        sa.PrimaryKeyConstraint("topic", "subject", name="pk_notices"),
    )
    op.create_table(
        "deliveries",
        sa.Column("message_id", KEY, nullable=False),
        sa.Column("target", KEY, nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("made_at", INSTANT, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", INSTANT),
        sa.Column("ended_at", INSTANT),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("said", sa.Text()),
        sa.PrimaryKeyConstraint("message_id", "target", name="pk_deliveries"),
    )
    _index("ix_notices_untold", "notices", ["first_at"], "count > 0")
    _index("ix_deliveries_waiting", "deliveries", ["next_at"], "next_at IS NOT NULL")
    _index("ix_deliveries_dead", "deliveries", ["ended_at"], "state = 'dead'")


def downgrade() -> None:
    """Drop them."""
    op.drop_table("deliveries")
    op.drop_table("notices")


def _index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
