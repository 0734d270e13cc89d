"""Tables of sessions of browsers, of sign-ins under way, of used logout tokens, and of links that share a page.

They belong to the metadata of tables.py. Secrets are there only by their SHA-256. Holds no statement.
"""

from typing import Final

from sqlalchemy import Column, Identity, Index, Table, Text

from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.control_tables import queues
from scheduler_service.sql.tables import KEY, ROW_ID

metadata: Final = queues.metadata

# `ends_at`: when it ends at the latest, or has ended. `granted_by`: the token or rule that its rights come from.
# `sid`: the session's name at the identity provider.
sessions: Final = Table(
    "sessions",
    metadata,
    Column("id", ROW_ID, Identity(), primary_key=True),
    Column("secret_hash", KEY, nullable=False),
    Column("granted_by", KEY, nullable=False),
    Column("name", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("issuer", Text),
    Column("id_token", Text),
    Column("sid", Text),
    Column("agent", Text, nullable=False),
    Column("address", Text),
    Column("started_at", InstantColumn, nullable=False),
    Column("seen_at", InstantColumn, nullable=False),
    Column("ends_at", InstantColumn, nullable=False),
    Column("ended_by", Text),
)
Index("ix_sessions_secret", sessions.c.secret_hash, unique=True)
Index("ix_sessions_ends_at", sessions.c.ends_at, sessions.c.id)

# One row for each browser that was sent to the identity provider and has not come back.
sign_ins: Final = Table(
    "sign_ins",
    metadata,
    Column("state_hash", KEY, primary_key=True),
    Column("browser_hash", KEY, nullable=False),
    Column("nonce", Text, nullable=False),
    Column("verifier", Text, nullable=False),
    Column("go_to", Text, nullable=False),
    Column("expires_at", InstantColumn, nullable=False),
)
Index("ix_sign_ins_expires_at", sign_ins.c.expires_at)

# One row for each logout token until it is too old to be accepted.
logout_tokens: Final = Table(
    "logout_tokens",
    metadata,
    Column("token_hash", KEY, primary_key=True),
    Column("expires_at", InstantColumn, nullable=False, index=True),
)

share_links: Final = Table(
    "share_links",
    metadata,
    Column("id", ROW_ID, Identity(), primary_key=True),
    Column("secret_hash", KEY, nullable=False),
    Column("address", Text, nullable=False),
    Column("granted_by", KEY, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", InstantColumn, nullable=False),
    Column("ends_at", InstantColumn, nullable=False),
    Column("ended_by", Text),
)
Index("ix_share_links_secret", share_links.c.secret_hash, unique=True)
Index("ix_share_links_ends_at", share_links.c.ends_at, share_links.c.id)
