"""Where the scheduler placed a balanced job, outside its definition: on the job, and on the version it holds for."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
TABLES = ("jobs", "job_versions")
COLUMNS = ("placed_anchor", "placed_at")


def upgrade() -> None:
    """Jobs that exist have no place: the next leader gives balanced ones theirs."""
    for table in TABLES:
        for column in COLUMNS:
            op.add_column(table, sa.Column(column, INSTANT))


def downgrade() -> None:
    """Forget the places."""
    for table in TABLES:
        for column in COLUMNS:
            op.drop_column(table, column)
