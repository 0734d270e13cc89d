"""What calendars are refreshed from."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
KEY = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """No calendar is refreshed so far."""
    op.create_table(
        "calendar_feeds",
        sa.Column("calendar_id", KEY, nullable=False),
        sa.Column("url", KEY, nullable=False),
        sa.Column("next_at", INSTANT, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("etag", sa.Text()),
        sa.Column("last_modified", sa.Text()),
        sa.Column("fetched_at", INSTANT),
        sa.Column("good_at", INSTANT),
        sa.Column("error", sa.Text()),
        sa.Column("failing_since", INSTANT),
        sa.PrimaryKeyConstraint("calendar_id", "url", name="pk_calendar_feeds"),
    )
    op.create_index("ix_calendar_feeds_next", "calendar_feeds", ["next_at"])


def downgrade() -> None:
    """Forget them: calendars stay as they were last written out."""
    op.drop_table("calendar_feeds")
