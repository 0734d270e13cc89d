"""What a run is looked for as, beside its state: a release or a start changes no index any more.

On PostgreSQL the column is computed for all rows, and nobody writes runs meanwhile; then the indexes are made beside
running programs (CONCURRENTLY). One that was left half made is made anew. New pages of `runs` are filled by half: a row
that changes stays on its page only where there is room for it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

STANDING = """
CASE WHEN state = 'completed' THEN NULL
WHEN state IN ('pending', 'running') OR (kind = 'occurrence' AND state IN ('retrying', 'scheduled')) THEN 'led'
ELSE state END
"""
IN_TURN = ["queue", "priority", "due_at", "id"]
NEW = {"ix_runs_standing": (["standing", *IN_TURN], "standing IS NOT NULL")}
OLD = {
    "ix_runs_waiting": (IN_TURN, "state IN ('retrying', 'scheduled')"),
    "ix_runs_waiting_asked_for": (IN_TURN, "state IN ('retrying', 'scheduled') AND kind != 'occurrence'"),
    "ix_runs_active": (["state", "kind"], "state IN ('pending', 'retrying', 'running', 'scheduled')"),
}
OTHERWISE = "{} IN ('cancelled', 'failed', 'missed', 'skipped')"
# Of the same names before and after, on `state` and on `standing`.
CHANGED = {
    "ix_runs_troubles": (["finished_at", "id"], "{} IN ('failed', 'missed')"),
    "ix_runs_ended_otherwise": (["{}", "scheduled_at", "id"], OTHERWISE),
    "ix_runs_of_job_otherwise": (["job_id", "{}", "scheduled_at", "id"], OTHERWISE),
    "ix_runs_of_queue_otherwise": (["queue", "{}", "scheduled_at", "id"], OTHERWISE),
}
STATISTICS = "CREATE STATISTICS st_runs_queue_state (mcv) ON queue, {} FROM runs"


def upgrade() -> None:
    """Compute it, and look for runs by it."""
    if _on_postgres():
        op.execute(f"ALTER TABLE runs ADD COLUMN IF NOT EXISTS standing text GENERATED ALWAYS AS ({STANDING}) STORED")
        op.execute("ALTER TABLE runs SET (fillfactor = 50)")
    else:
        op.execute(f"ALTER TABLE runs ADD COLUMN standing TEXT GENERATED ALWAYS AS ({STANDING}) VIRTUAL")
    _make(NEW | _on("standing"))
    _drop(OLD)
    _know("state, standing")


def downgrade() -> None:
    """Look for runs by their state again."""
    _make(OLD | _on("state"))
    _drop(NEW)
    _know("state")
    if _on_postgres():
        op.execute("ALTER TABLE runs RESET (fillfactor)")
        op.execute("ALTER TABLE runs DROP COLUMN IF EXISTS standing")
    else:
        op.execute("ALTER TABLE runs DROP COLUMN standing")


def _on(column: str) -> dict[str, tuple[list[str], str]]:
    return {
        name: ([c.format(column) for c in columns], where.format(column)) for name, (columns, where) in CHANGED.items()
    }


def _make(indexes: dict[str, tuple[list[str], str]]) -> None:
    for name, (columns, where) in indexes.items():
        if not _on_postgres():
            op.drop_index(name, "runs", if_exists=True)
            op.create_index(name, "runs", columns, sqlite_where=sa.text(where))
            continue
        with op.get_context().autocommit_block():
            op.drop_index(name, "runs", if_exists=True, postgresql_concurrently=True)
            op.create_index(name, "runs", columns, postgresql_where=sa.text(where), postgresql_concurrently=True)


def _drop(indexes: dict[str, tuple[list[str], str]]) -> None:
    for name in indexes:
        if not _on_postgres():
            op.drop_index(name, "runs")
            continue
        with op.get_context().autocommit_block():
            op.drop_index(name, "runs", if_exists=True, postgresql_concurrently=True)


def _know(columns: str) -> None:
    if _on_postgres():
        op.execute("DROP STATISTICS IF EXISTS st_runs_queue_state")
        op.execute(STATISTICS.format(columns))
        op.execute("ANALYZE runs")


def _on_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"
