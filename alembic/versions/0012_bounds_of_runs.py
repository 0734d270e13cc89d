"""On PostgreSQL, where other programs insert runs too: only times that can be read, priorities that are looked for.

Rows that are there are not looked at, so that the lock is held for a moment only. SQLite's file is ours alone.
"""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# 'infinity' and years after 9999 are times that no driver can hand to Python.
BOUNDS = """
priority BETWEEN 0 AND 9
AND scheduled_at BETWEEN '0001-01-01T00:00:00Z' AND '9999-12-31T23:59:59.999999Z'
AND due_at BETWEEN '0001-01-01T00:00:00Z' AND '9999-12-31T23:59:59.999999Z'
"""


def upgrade() -> None:
    """From now on."""
    if _on_postgres():
        op.execute(f"ALTER TABLE runs ADD CONSTRAINT ck_runs_bounds CHECK ({BOUNDS}) NOT VALID")


def downgrade() -> None:
    """Let anything in."""
    if _on_postgres():
        op.execute("ALTER TABLE runs DROP CONSTRAINT IF EXISTS ck_runs_bounds")


def _on_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"
