"""Which file owns a job: what jobs as code may prune."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Jobs that exist belong to no file."""
    op.add_column("jobs", sa.Column("source", KEY))
    op.create_index(
        "ix_jobs_source",
        "jobs",
        ["source"],
        postgresql_where=sa.text("source IS NOT NULL"),
        sqlite_where=sa.text("source IS NOT NULL"),
    )


def downgrade() -> None:
    """Forget it."""
    op.drop_index("ix_jobs_source", table_name="jobs")
    op.drop_column("jobs", "source")
