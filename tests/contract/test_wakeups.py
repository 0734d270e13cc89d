"""News of commits by PostgreSQL's notices: sent at commit, by whoever inserts, and never trusted to be complete."""

from collections.abc import Iterator, Set
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import text

from itinerary.protocol.errors import StoreUnavailable
from itinerary.protocol.instants import MILLISECOND, SECOND
from scheduler_service.sql.wakeups import PgWakeups
from tests.support.processes import free_port, wait_until
from tests.support.store_bed import StoreBed, a_job, occurrence, one_off

pytestmark = pytest.mark.postgres
BRIEFLY = 50 * MILLISECOND


def heard(wakeups: PgWakeups) -> Set[str]:
    """The next news."""
    return wait_until(lambda: wakeups.wait(SECOND), what="a notice")


@pytest.fixture
def wakeups(emptied_postgres_url: str) -> Iterator[PgWakeups]:
    with closing(PgWakeups(emptied_postgres_url)) as listening:
        assert heard(listening) == {"runs", "jobs"}, "the first answer names everything"
        yield listening


def test_a_committed_run_is_told_and_a_changed_job_too(wakeups: PgWakeups, postgres_stores: StoreBed) -> None:
    postgres_stores.runs.enqueue([one_off(0)])
    assert heard(wakeups) == {"runs"}
    postgres_stores.jobs.create(a_job())
    assert heard(wakeups) == {"jobs"}
    postgres_stores.jobs.set_paused("job", True, None, None)
    assert heard(wakeups) == {"jobs"}
    assert wakeups.wait(BRIEFLY) == frozenset()


def test_a_thousand_rows_of_one_transaction_are_told_once(wakeups: PgWakeups, postgres_stores: StoreBed) -> None:
    postgres_stores.runs.enqueue([one_off(0) for _ in range(1000)])
    assert heard(wakeups) == {"runs"}
    assert wakeups.wait(BRIEFLY) == frozenset()


def test_what_is_rolled_back_is_not_told(wakeups: PgWakeups, postgres_stores: StoreBed) -> None:
    postgres_stores.runs.enqueue([one_off(0, idempotency_key="k", request_hash="h")])
    assert heard(wakeups) == {"runs"}
    postgres_stores.runs.enqueue([one_off(0, idempotency_key="k", request_hash="h")])
    assert wakeups.wait(BRIEFLY) == frozenset()


def test_the_leaders_own_occurrences_are_not_told(wakeups: PgWakeups, postgres_stores: StoreBed) -> None:
    lease = postgres_stores.lead()
    job = postgres_stores.planned_job(lease)
    assert heard(wakeups) == {"jobs"}
    postgres_stores.make(lease, *(occurrence(job, lease.now + n) for n in range(100)))
    assert wakeups.wait(BRIEFLY) == frozenset()


def test_after_a_broken_connection_everything_may_be_new(wakeups: PgWakeups, postgres_stores: StoreBed) -> None:
    database = postgres_stores.database
    assert database is not None
    with database.write() as connection:
        connection.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'itinerary wakeups'")
        )
    with pytest.raises(StoreUnavailable):
        heard(wakeups)
    assert heard(wakeups) == {"runs", "jobs"}


def test_foreign_words_on_the_channel_are_nothing(wakeups: PgWakeups, emptied_postgres_url: str) -> None:
    url = emptied_postgres_url.replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(url, autocommit=True) as foreign:
        foreign.execute("NOTIFY itinerary, 'DROP TABLE runs'")
    assert wakeups.wait(BRIEFLY) == frozenset()


def test_a_database_that_is_away_is_said_so() -> None:
    away = PgWakeups(f"postgresql://nobody@127.0.0.1:{free_port()}/nothing")
    with pytest.raises(StoreUnavailable):
        away.wait(SECOND)
