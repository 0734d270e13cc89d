"""Who changed what (audit_log, job_versions.actor), who led when (leaderships), and a NOTIFY for what is committed.

The NOTIFY is a trigger's, so that no writer can forget it and one that may only insert needs no further right. It is
sent at commit, once a transaction however many rows it made, and not for the leader's own occurrences.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
PAYLOAD = sa.Text().with_variant(postgresql.JSON(), "postgresql")
INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")

POSTGRES = (
    """CREATE FUNCTION itinerary_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
    END $$""",
    """CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log
    FOR EACH ROW EXECUTE FUNCTION itinerary_append_only()""",
    """CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log
    FOR EACH ROW WHEN (OLD.at > now() - interval '90 days') EXECUTE FUNCTION itinerary_append_only()""",
    """CREATE TRIGGER audit_log_no_truncate BEFORE TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION itinerary_append_only()""",
    """CREATE FUNCTION itinerary_notify() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_notify('itinerary', TG_ARGV[0]);
        RETURN NULL;
    END $$""",
    """CREATE TRIGGER runs_notify AFTER INSERT ON runs
    FOR EACH ROW WHEN (NEW.kind <> 'occurrence') EXECUTE FUNCTION itinerary_notify('runs')""",
    """CREATE TRIGGER job_versions_notify AFTER INSERT ON job_versions
    FOR EACH ROW EXECUTE FUNCTION itinerary_notify('jobs')""",
)
POSTGRES_UNDONE = (
    "DROP TRIGGER job_versions_notify ON job_versions",
    "DROP TRIGGER runs_notify ON runs",
    "DROP FUNCTION itinerary_notify()",
    "DROP TABLE audit_log",
    "DROP FUNCTION itinerary_append_only()",
)
SQLITE = (
    """CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log
    BEGIN SELECT RAISE(ABORT, 'audit_log is append-only'); END""",
    """CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log
    WHEN OLD.at > (CAST(strftime('%s', 'now') AS INTEGER) - 90 * 86400) * 1000000
    BEGIN SELECT RAISE(ABORT, 'audit_log is append-only'); END""",
)


def upgrade() -> None:
    """Make the tables, the column and the triggers."""
    op.add_column("job_versions", sa.Column("actor", sa.Text()))
    op.create_table(
        "audit_log",
        sa.Column("id", ROW_ID, sa.Identity(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", KEY),
        sa.Column("before", PAYLOAD),
        sa.Column("after", PAYLOAD),
        sa.PrimaryKeyConstraint("id", name="pk_audit_log"),
    )
    op.create_index("ix_audit_log_subject", "audit_log", ["subject", "id"])
    op.create_table(
        "leaderships",
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("term", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("began_at", INSTANT, nullable=False),
        sa.Column("confirmed_at", INSTANT, nullable=False),
        sa.Column("ended_at", INSTANT, nullable=False),
        sa.Column("ending", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("shard", "term", name="pk_leaderships"),
    )
    for statement in POSTGRES if _on_postgres() else SQLITE:
        op.execute(statement)


def downgrade() -> None:
    """Drop them."""
    if _on_postgres():
        for statement in POSTGRES_UNDONE:
            op.execute(statement)
    else:
        op.drop_table("audit_log")
    op.drop_table("leaderships")
    op.drop_column("job_versions", "actor")


def _on_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"
