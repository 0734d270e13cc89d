"""The file that owns a monitor."""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody owns those that are there."""
    op.add_column("monitors", sa.Column("source", sa.Text()))


def downgrade() -> None:
    """Forget the owners."""
    op.drop_column("monitors", "source")
