"""The headers that a run gives its messages; most runs have none."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Runs so far have none."""
    op.add_column("runs", sa.Column("headers", sa.Text().with_variant(postgresql.JSON(), "postgresql")))


def downgrade() -> None:
    """Forget them."""
    op.drop_column("runs", "headers")
