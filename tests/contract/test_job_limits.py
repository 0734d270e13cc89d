"""Which jobs name a limit: a job is saved with a limit that is there, or the limit is deleted; never both."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import delete, text

from scheduler_service.core.limits import Bounds, Limit
from scheduler_service.sql.control_tables import limits
from scheduler_service.sql.database import Database
from scheduler_service.sql.job_limits import hold_limits
from scheduler_service.sql.limit_rows import limit_values
from scheduler_service.sql.named_by_jobs import LIMITS_NAMED
from tests.support.processes import wait_until
from tests.support.store_bed import StoreBed


def define(database: Database, *defined: Limit) -> None:
    with database.write() as connection:
        for limit in defined:
            connection.execute(limits.insert().values(**limit_values(limit), created_at=1, updated_at=1))


def test_the_limits_of_jobs_are_replaced_and_found_by_name(sql_stores: StoreBed) -> None:
    database = sql_stores.by_role["api"]
    define(database, Limit("api", Bounds(1)), Limit("tenant", Bounds(2), per_key=True))
    with database.write() as connection:
        assert hold_limits(connection, {"tenant", "api", "gone"}) == {"api": False, "tenant": True}
        assert hold_limits(connection, ()) == {}
        LIMITS_NAMED.write(connection, {"b": ["tenant", "tenant"], "a": ["tenant", "api"], "c": ["tenant"]})
    with database.write() as connection:
        LIMITS_NAMED.write(connection, {"b": ["api"], "c": ()})
        assert LIMITS_NAMED.jobs(connection, "tenant", 5) == ["a"]
        assert LIMITS_NAMED.jobs(connection, "api", 5) == ["a", "b"]
        assert LIMITS_NAMED.jobs(connection, "api", 1) == ["a"]


@pytest.mark.postgres
def test_a_limit_that_a_job_is_being_saved_with_is_not_deleted(postgres_stores: StoreBed) -> None:
    database = postgres_stores.by_role["api"]
    define(database, Limit("api", Bounds(1)))

    def take_alone() -> list[str]:
        with postgres_stores.beside().by_role["api"].write() as connection:
            named = [*LIMITS_NAMED.jobs_alone(connection, "api", 3)]
            if not named:
                connection.execute(delete(limits))
            return named

    with ThreadPoolExecutor(1) as pool, database.write() as connection:
        assert hold_limits(connection, ["api"])
        deleting = pool.submit(take_alone)
        wait_until(lambda: _waits(postgres_stores), what="the delete to wait for the job")
        LIMITS_NAMED.write(connection, {"nightly": ["api"]})
        connection.commit()
        assert deleting.result(60) == ["nightly"]


def _waits(bed: StoreBed) -> bool:
    assert bed.database is not None
    with bed.database.read() as connection:
        return bool(connection.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted")).scalar_one())
