"""Bringing the database's schema to what this program needs, by Alembic, and telling whether it is that.

Promises: several processes may migrate at once (one does, the others wait and find it done), all in one transaction;
a schema that a newer program made is never touched. Never run by the leader itself: it only asks.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, func, select

import scheduler_service
from scheduler_service.adapters.database import Bounds, Database
from scheduler_service.core.errors import StoreUnavailable
from scheduler_service.core.instants import MINUTE

# Rewriting a table may take long, and so may waiting for another process that does it.
MIGRATION_BOUNDS: Final = Bounds(statement=60 * MINUTE, lock=60 * MINUTE, idle=60 * MINUTE)
_ADVISORY_LOCK: Final = 0x17_1EAA_2D


def upgrade(database_url: str, report: Callable[[str], None] = lambda line: None) -> None:
    """Migrate to this program's schema; `report` is given one line for each version and one at the end."""
    database = Database(database_url, pool_size=1, bounds=MIGRATION_BOUNDS)
    try:
        with database.write() as connection:
            if database.dialect == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
            current, newest = _revisions(connection)
            _refuse_newer(current)
            command.upgrade(alembic_config(connection=connection, on_version_apply=_teller(report)), "head")
    finally:
        database.close()
    report(f"the schema is at version {newest}" + (", as it was" if current == newest else ""))


def schema_is_current(engine: Engine) -> bool:
    """Whether the database has exactly this program's schema: neither an older nor a newer one may be led on."""
    with engine.connect() as connection:
        current, newest = _revisions(connection)
    return current == newest


def check_schema(database: Database) -> None:
    """Return if the schema is this program's; StoreUnavailable saying what to do if not."""
    with database.read() as connection:
        current, newest = _revisions(connection)
    _refuse_newer(current)
    if current != newest:
        raise StoreUnavailable(
            f"the database's schema is {current or 'missing'}, not {newest}: run `itinerary migrate`"
        )


def alembic_config(**attributes: Any) -> Config:
    """Alembic's configuration for this program's versions; `attributes` reach env.py."""
    config = Config()
    config.set_main_option("script_location", str(_script_location()).replace("%", "%%"))
    config.attributes.update(attributes)
    return config


def _revisions(connection: Any) -> tuple[str | None, str | None]:
    context = MigrationContext.configure(connection)
    return context.get_current_revision(), ScriptDirectory.from_config(alembic_config()).get_current_head()


def _refuse_newer(current: str | None) -> None:
    known = {script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()}
    if current is not None and current not in known:
        raise StoreUnavailable(f"the database's schema {current} is of a newer program; upgrade this one")


def _teller(report: Callable[[str], None]) -> Callable[..., None]:
    def on_version_apply(*, step: Any, **_: Any) -> None:
        report(f"migrated to version {step.up_revision_id}")

    return on_version_apply


def _script_location() -> Path:
    """The installed package carries the versions inside it; a checkout has them beside it."""
    package = Path(scheduler_service.__file__).parent
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "alembic"
