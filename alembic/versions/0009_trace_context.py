"""The trace context that a run was enqueued with, where its caller had one."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Runs so far have none."""
    op.add_column("runs", sa.Column("traceparent", sa.Text))


def downgrade() -> None:
    """Forget them."""
    op.drop_column("runs", "traceparent")
