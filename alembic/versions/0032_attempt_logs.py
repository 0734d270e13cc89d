"""The logs of attempts."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0032"
down_revision = "0039"
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """No attempt has a log so far."""
    op.create_table(
        "attempt_logs",
        sa.Column("run_id", KEY, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("end_position", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "attempt", name="pk_attempt_logs"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_attempt_logs_run_id", ondelete="CASCADE"),
    )


def downgrade() -> None:
    """Forget them."""
    op.drop_table("attempt_logs")
