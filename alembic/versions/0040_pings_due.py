"""Pings by when they are due, so that many which wait for another try are not read with each claim.

On PostgreSQL it is made beside a running leader (CONCURRENTLY); one that was left half made is made anew. A leader of
the program before sorts the few pings that are due instead.
"""

from alembic import op

revision = "0040"
down_revision = "0032"
branch_labels = None
depends_on = None

NEW, OLD = ("ix_pings_next_at", "next_at"), ("ix_pings_made_at", "made_at")


def upgrade() -> None:
    """Make the new one, drop the old one."""
    _replace(OLD, NEW)


def downgrade() -> None:
    """Make the old one, drop the new one."""
    _replace(NEW, OLD)


def _replace(before: tuple[str, str], after: tuple[str, str]) -> None:
    if op.get_bind().dialect.name != "postgresql":
        op.drop_index(before[0], "pings")
        op.create_index(after[0], "pings", [after[1]])
        return
    with op.get_context().autocommit_block():
        op.drop_index(after[0], "pings", if_exists=True, postgresql_concurrently=True)
        op.create_index(after[0], "pings", [after[1]], postgresql_concurrently=True)
        op.drop_index(before[0], "pings", if_exists=True, postgresql_concurrently=True)
