"""The index of a job's runs has their index state as well: a calendar counts how many ended how by it alone.

The month of a job that ran 25,000 times read so many rows of the table. On PostgreSQL the new index is made beside
running programs (CONCURRENTLY) while the old one serves; one that was left half made is made anew.
"""

from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None

_NAME, _NEXT = "ix_runs_of_job", "ix_runs_of_job_next"
_BEFORE = ["job_id", "scheduled_at", "id"]


def upgrade() -> None:
    """Make it anew, with the index state."""
    _replace([*_BEFORE, "standing"])


def downgrade() -> None:
    """Make it as it was."""
    _replace(_BEFORE)


def _replace(columns: list[str]) -> None:
    if op.get_bind().dialect.name != "postgresql":
        op.drop_index(_NAME, "runs")
        op.create_index(_NAME, "runs", columns)
        return
    with op.get_context().autocommit_block():
        # If we die here, another attempt begins anew: nothing but this migration knows the second name.
        op.drop_index(_NEXT, "runs", if_exists=True, postgresql_concurrently=True)
        op.create_index(_NEXT, "runs", columns, postgresql_concurrently=True)
        op.drop_index(_NAME, "runs", if_exists=True, postgresql_concurrently=True)
        op.execute(f"ALTER INDEX {_NEXT} RENAME TO {_NAME}")
