"""The version of the database's schema, held beside this program's at the start of every process.

Reads the files of versions as text: Alembic, which runs them, takes longer to import than a small installation to lead.
A schema of a newer program is refused. Never migrates.
"""

import re
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

import scheduler_service
from itinerary.protocol.errors import StoreUnavailable
from scheduler_service.sql.database import Database

_REVISION: Final = re.compile(r'^(?:down_)?revision = (?:"(\w+)"|None)$', re.MULTILINE)
_TABLE: Final = "alembic_version"
_STORED: Final = text(f"SELECT version_num FROM {_TABLE}")


def check_schema(database: Database) -> None:
    """Return if the schema is exactly this program's; else StoreUnavailable, saying what to do."""
    with database.read() as connection:
        current = current_version(connection)
    known = known_versions()
    refuse_newer(current, known)
    if current != known[-1]:
        raise StoreUnavailable(
            f"the database's schema is {current or 'missing'}, not {known[-1]}: run `itinerary migrate`"
        )


def refuse_newer(current: str | None, known: list[str]) -> None:
    """Refuse a schema that this program does not know."""
    if current is not None and current not in known:
        raise StoreUnavailable(f"the database's schema {current} is of a newer program; upgrade this one")


def current_version(connection: Connection) -> str | None:
    """Return the version of the schema; None where there is none yet."""
    if not inspect(connection).has_table(_TABLE):
        return None
    found: str | None = connection.execute(_STORED).scalar_one_or_none()
    return found


def known_versions() -> list[str]:
    """Return the versions that this program knows, oldest first."""
    files = (path.read_text("utf-8") for path in (versions_folder() / "versions").glob("*.py"))
    after = {before or None: version for version, before in map(_REVISION.findall, files)}
    found: list[str] = []
    while (following := after.get(found[-1] if found else None)) is not None:
        found.append(following)
    return found


def versions_folder() -> Path:
    """Return Alembic's folder: inside an installed package, beside the package in a checkout."""
    package = Path(scheduler_service.__file__).parent
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "alembic"
