"""Named calendars with their versions, and which jobs name them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
KEY = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
PAYLOAD = sa.Text().with_variant(postgresql.JSON(), "postgresql")


def upgrade() -> None:
    """No job names a calendar so far."""
    op.create_table(
        "calendars",
        sa.Column("calendar_id", KEY, nullable=False),
        sa.Column("definition", PAYLOAD, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("calendar_id", name="pk_calendars"),
    )
    op.create_table(
        "calendar_versions",
        sa.Column("calendar_id", KEY, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("definition", PAYLOAD, nullable=False),
        sa.Column("compiled", PAYLOAD, nullable=False),
        sa.Column("effective_from", INSTANT, nullable=False),
        sa.Column("ended_at", INSTANT),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("calendar_id", "version", name="pk_calendar_versions"),
    )
    op.create_index("ix_calendar_versions_revision", "calendar_versions", ["revision"])
    op.create_index("ix_calendar_versions_ended", "calendar_versions", ["ended_at", "calendar_id", "version"])
    op.create_table(
        "job_calendars",
        sa.Column("calendar_id", KEY, nullable=False),
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("by_days", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("calendar_id", "job_id", name="pk_job_calendars"),
    )
    op.create_index("ix_job_calendars_job", "job_calendars", ["job_id"])


def downgrade() -> None:
    """Forget them: jobs that name calendars fire on every day of their schedule."""
    op.drop_table("job_calendars")
    op.drop_table("calendar_versions")
    op.drop_table("calendars")
