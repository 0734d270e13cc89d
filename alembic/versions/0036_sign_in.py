"""Sessions of browsers, sign-ins under way, links that share a page."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0036"
down_revision = "0031"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
KEY = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Nobody is signed in so far, nothing is shared."""
    op.create_table(
        "sessions",
        sa.Column("id", ROW_ID, sa.Identity(), nullable=False),
        sa.Column("secret_hash", KEY, nullable=False),
        sa.Column("granted_by", KEY, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("issuer", sa.Text()),
        sa.Column("id_token", sa.Text()),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("seen_at", INSTANT, nullable=False),
        sa.Column("ends_at", INSTANT, nullable=False),
        sa.Column("ended_by", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    op.create_index("ix_sessions_secret", "sessions", ["secret_hash"], unique=True)
    op.create_index("ix_sessions_ends_at", "sessions", ["ends_at", "id"])
    op.create_table(
        "sign_ins",
        sa.Column("state_hash", KEY, nullable=False),
        sa.Column("browser_hash", KEY, nullable=False),
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.Column("verifier", sa.Text(), nullable=False),
        sa.Column("go_to", sa.Text(), nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("state_hash", name="pk_sign_ins"),
    )
    op.create_index("ix_sign_ins_expires_at", "sign_ins", ["expires_at"])
    op.create_table(
        "share_links",
        sa.Column("id", ROW_ID, sa.Identity(), nullable=False),
        sa.Column("secret_hash", KEY, nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("granted_by", KEY, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("ends_at", INSTANT, nullable=False),
        sa.Column("ended_by", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_share_links"),
    )
    op.create_index("ix_share_links_secret", "share_links", ["secret_hash"], unique=True)
    op.create_index("ix_share_links_ends_at", "share_links", ["ends_at", "id"])


def downgrade() -> None:
    """Everybody signs in again; links end."""
    for table in ("share_links", "sign_ins", "sessions"):
        op.drop_table(table)
