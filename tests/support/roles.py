"""Roles of PostgreSQL with the rights that the manual lists, and no others."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from scheduler_service.sql.database_url import libpq_options, read_url
from tests.support.processes import MANUAL

PAGE = (MANUAL / "security.md").read_text("utf-8")
NAMES = ("leader", "api")


@contextmanager
def narrow_roles(database_url: str) -> Iterator[dict[str, str]]:
    """The addresses of this migrated database for `leader` and `api`, each a role of its own while the block lasts."""
    (grants,) = re.findall(r"```sql\n(.+?)```", PAGE, re.DOTALL)
    owner = read_url(database_url)
    roles = {name: f"{name}_of_{owner.database}" for name in NAMES}
    for name, role in roles.items():
        grants = grants.replace(f"itinerary_{name}", role)
    by_owner = libpq_options(owner)
    with psycopg.connect(**by_owner, autocommit=True) as connection:
        connection.execute(grants.replace("...", "secret"))
    try:
        yield {
            name: owner.set(username=role, password=owner.password or "secret").render_as_string(hide_password=False)
            for name, role in roles.items()
        }
    finally:
        with psycopg.connect(**by_owner, autocommit=True) as connection:
            for role in roles.values():
                connection.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}; DROP ROLE {role}")
