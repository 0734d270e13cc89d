"""What a pause does with runs that were due before it and had to wait: keep them for the resume, or skip them."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

TABLES = ("jobs", "job_versions")


def upgrade() -> None:
    """Keep them, also in pauses of before."""
    for table in TABLES:
        op.add_column(table, sa.Column("pause_skips", sa.Boolean, nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """Skip them, as before."""
    for table in TABLES:
        op.drop_column(table, "pause_skips")
