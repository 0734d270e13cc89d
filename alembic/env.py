"""Alembic's entry: runs the versions on the connection that the program hands over, else on ITINERARY_DATABASE_URL.

Never configures logging and never decides when to migrate: scheduler_service.sql.migrations does.
"""

import os

from alembic import context
from sqlalchemy import Connection

from scheduler_service.sql.database import Database
from scheduler_service.sql.migrations import MIGRATION_BOUNDS, alone
from scheduler_service.sql.notice_tables import metadata


def run(connection: Connection) -> None:
    """Run the versions in the transaction that is open; where none is, each in one of its own."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        compare_server_default=True,
        transaction_per_migration=True,
        on_version_apply=context.config.attributes.get("on_version_apply"),
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    database = Database(os.environ["ITINERARY_DATABASE_URL"], pool_size=1, bounds=MIGRATION_BOUNDS)
    with alone(database) as own:
        run(own)
    database.close()
