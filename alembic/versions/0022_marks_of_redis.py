"""Which Redis and which broker the leader uses, by the marks that it put there."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A leader of before has recorded neither."""
    op.add_column("leases", sa.Column("redis_mark", sa.Text()))
    op.add_column("leases", sa.Column("broker_mark", sa.Text()))


def downgrade() -> None:
    """Forget both."""
    op.drop_column("leases", "broker_mark")
    op.drop_column("leases", "redis_mark")
