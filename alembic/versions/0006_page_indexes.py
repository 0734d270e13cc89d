"""Indexes of runs that did not complete: pages find them among millions that did."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TROUBLE = sa.text("state IN ('failed', 'missed')")
ENDED_OTHERWISE = sa.text("state IN ('cancelled', 'failed', 'missed', 'skipped')")


def upgrade() -> None:
    """Make them."""
    _index("ix_runs_troubles", ["finished_at", "id"], TROUBLE)
    _index("ix_runs_ended_otherwise", ["state", "scheduled_at", "id"], ENDED_OTHERWISE)


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_runs_ended_otherwise", "runs")
    op.drop_index("ix_runs_troubles", "runs")


def _index(name: str, columns: list[str], where: sa.TextClause) -> None:
    op.create_index(name, "runs", columns, sqlite_where=where, postgresql_where=where)
