"""Monitors: schedules that expect a ping from outside, and the last pings of each."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0039"
down_revision = "0037"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
KEY = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
PAYLOAD = sa.Text().with_variant(postgresql.JSON(), "postgresql")
WHERE = sa.text("alert_at IS NOT NULL")


def upgrade() -> None:
    """There are none yet."""
    op.create_table(
        "monitors",
        sa.Column("monitor_id", KEY, nullable=False),
        sa.Column("definition", PAYLOAD, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("expected_at", INSTANT),
        sa.Column("alert_at", INSTANT),
        sa.Column("started_at", INSTANT),
        sa.Column("last_ping_at", INSTANT),
        sa.Column("last_outcome", sa.Text()),
        sa.Column("last_duration", sa.BigInteger()),
        sa.PrimaryKeyConstraint("monitor_id", name="pk_monitors"),
    )
    op.create_index("ix_monitors_alert_at", "monitors", ["alert_at"], sqlite_where=WHERE, postgresql_where=WHERE)
    op.create_table(
        "monitor_pings",
        sa.Column("id", ROW_ID, sa.Identity(), nullable=False),
        sa.Column("monitor_id", KEY, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("duration", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_monitor_pings"),
        sa.ForeignKeyConstraint(["monitor_id"], ["monitors.monitor_id"], name="fk_monitor_pings_monitor_id"),
    )
    op.create_index("ix_monitor_pings_of_monitor", "monitor_pings", ["monitor_id", "id"])


def downgrade() -> None:
    """Forget them, and their notices: a notifier of the program before ends at a topic that it does not know."""
    for table in ("notices", "deliveries"):
        op.execute(f"DELETE FROM {table} WHERE topic IN ('monitor.down', 'monitor.up')")
    op.drop_table("monitor_pings")
    op.drop_table("monitors")
