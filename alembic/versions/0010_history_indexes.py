"""History by queue, and what did not complete by job and by queue: a page of any filter is a short walk.

On PostgreSQL the indexes are made beside running leaders (CONCURRENTLY): nobody waits for them. One that was left half
made is made anew. The statistics tell the planner that some queues never fail, and others do nothing else.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

ENDED_OTHERWISE = "state IN ('cancelled', 'failed', 'missed', 'skipped')"
INDEXES = {
    "ix_runs_of_queue": (["queue", "scheduled_at", "id"], None),
    "ix_runs_of_job_otherwise": (["job_id", "state", "scheduled_at", "id"], ENDED_OTHERWISE),
    "ix_runs_of_queue_otherwise": (["queue", "state", "scheduled_at", "id"], ENDED_OTHERWISE),
}


def upgrade() -> None:
    """Make them."""
    for name, (columns, where) in INDEXES.items():
        condition = None if where is None else sa.text(where)
        if not _on_postgres():
            op.create_index(name, "runs", columns, sqlite_where=condition)
            continue
        with op.get_context().autocommit_block():
            op.drop_index(name, "runs", if_exists=True, postgresql_concurrently=True)
            op.create_index(name, "runs", columns, postgresql_where=condition, postgresql_concurrently=True)
    if _on_postgres():
        op.execute("CREATE STATISTICS st_runs_queue_state (mcv) ON queue, state FROM runs")
        op.execute("ANALYZE runs")


def downgrade() -> None:
    """Drop them."""
    if _on_postgres():
        op.execute("DROP STATISTICS IF EXISTS st_runs_queue_state")
    for name in reversed(INDEXES):
        if not _on_postgres():
            op.drop_index(name, "runs")
            continue
        with op.get_context().autocommit_block():
            op.drop_index(name, "runs", if_exists=True, postgresql_concurrently=True)


def _on_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"
