"""Indexes that answer alone: of jobs by queue and task without deleted ones, of runs that failed with job and queue.

To count 10,000 jobs of a queue read most pages of their table, and a timeline of what failed one page for each run.
On PostgreSQL they are made beside running programs (CONCURRENTLY); one that was left half made is made anew.
"""

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

_ENDED = sa.text("standing IN ('cancelled', 'failed', 'missed', 'skipped')")
_BEFORE = (
    ("ix_runs_ended_otherwise", "runs", ["standing", "scheduled_at", "id"], _ENDED, _ENDED),
    ("ix_jobs_queue", "jobs", ["queue", "job_id"], None, None),
    ("ix_jobs_task", "jobs", ["task", "job_id"], None, None),
)
_THERE = (sa.text("NOT deleted"), sa.text("deleted = 0"))
_AFTER = (
    ("ix_runs_ended_otherwise", "runs", ["standing", "scheduled_at", "id", "job_id", "queue"], _ENDED, _ENDED),
    ("ix_jobs_queue", "jobs", ["queue", "job_id"], *_THERE),
    ("ix_jobs_task", "jobs", ["task", "job_id"], *_THERE),
)


def upgrade() -> None:
    """Make them anew."""
    _make(_AFTER)


def downgrade() -> None:
    """Make them as they were."""
    _make(_BEFORE)


def _make(indexes: tuple[tuple[str, str, list[str], sa.TextClause | None, sa.TextClause | None], ...]) -> None:
    if op.get_bind().dialect.name != "postgresql":
        for name, table, columns, _, where in indexes:
            op.drop_index(name, table)
            op.create_index(name, table, columns, sqlite_where=where)
        return
    with op.get_context().autocommit_block():
        for name, table, columns, where, _ in indexes:
            op.drop_index(name, table, if_exists=True, postgresql_concurrently=True)
            op.create_index(name, table, columns, postgresql_where=where, postgresql_concurrently=True)
