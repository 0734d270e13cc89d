"""Bulk operations with their progress."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0035"
down_revision = "0033"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
KEY = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
PAYLOAD = sa.Text().with_variant(postgresql.JSON(), "postgresql")


def upgrade() -> None:
    """No operation goes on so far."""
    op.create_table(
        "bulk_operations",
        sa.Column("operation_id", KEY, nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("filter", PAYLOAD, nullable=False),
        sa.Column("options", PAYLOAD, nullable=False),
        sa.Column("limits", PAYLOAD, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text()),
        sa.Column("request_hash", sa.Text()),
        sa.Column("undo_of", KEY),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("place", sa.Text()),
        sa.Column("last_run", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("total_more", sa.Boolean(), nullable=False),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.Column("counts", PAYLOAD, nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("finished_at", INSTANT),
        sa.PrimaryKeyConstraint("operation_id", name="pk_bulk_operations"),
    )
    for name, column in (("uq_bulk_operations_key", "idempotency_key"), ("uq_bulk_operations_undo_of", "undo_of")):
        given = sa.text(f"{column} IS NOT NULL")
        op.create_index(name, "bulk_operations", [column], unique=True, sqlite_where=given, postgresql_where=given)
    unfinished = sa.text("finished_at IS NULL")
    op.create_index(
        "ix_bulk_operations_unfinished", "bulk_operations", ["operation_id"],
        sqlite_where=unfinished, postgresql_where=unfinished,
    )  # fmt: skip
    op.create_index("ix_bulk_operations_finished", "bulk_operations", ["finished_at"])
    op.create_index("ix_bulk_operations_actor", "bulk_operations", ["actor", "operation_id"])


def downgrade() -> None:
    """Forget them: what they changed stays."""
    op.drop_table("bulk_operations")
