"""Where a session was begun, its name at the identity provider, and the logout tokens that were used."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
KEY = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Sessions that last have neither; no logout token was used."""
    for name in ("address", "sid"):
        op.add_column("sessions", sa.Column(name, sa.Text()))
    op.create_table(
        "logout_tokens",
        sa.Column("token_hash", KEY, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_logout_tokens"),
    )
    op.create_index("ix_logout_tokens_expires_at", "logout_tokens", ["expires_at"])


def downgrade() -> None:
    """Forget them."""
    op.drop_table("logout_tokens")
    for name in ("sid", "address"):
        op.drop_column("sessions", name)
