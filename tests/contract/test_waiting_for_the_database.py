"""A leader that starts while its database is away waits for it; what waiting does not mend is said at once."""

import threading
from contextlib import closing

import pytest
from sqlalchemy import make_url
from structlog.testing import capture_logs

from itinerary.protocol.errors import StatementTimedOut, StoreRefused, StoreUnavailable
from itinerary.protocol.instants import MILLISECOND, SECOND
from scheduler_service.bootstrap.parts import await_database
from scheduler_service.sql.database import Bounds, Database
from tests.support.processes import wait_until
from tests.support.proxy import FaultProxy

pytestmark = pytest.mark.postgres


def test_a_database_that_is_away_is_waited_for_with_a_line_of_the_log(postgres_url: str) -> None:
    url = make_url(postgres_url)
    with FaultProxy(url.port or 5432, url.host or "127.0.0.1") as proxy:
        proxy.become("refuse")
        through = url.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False)
        with closing(Database(through, bounds=Bounds(connect=2 * SECOND))) as database, capture_logs() as logs:
            waiting = threading.Thread(target=await_database, args=[database])
            waiting.start()
            wait_until(lambda: any("waiting for it" in entry["event"] for entry in logs))
            assert waiting.is_alive()
            proxy.become("none")
            waiting.join(60)
            assert not waiting.is_alive()


def test_what_no_waiting_mends_ends_the_start_with_its_reason(postgres_url: str, empty_postgres_url: str) -> None:
    nowhere = make_url(postgres_url).set(database="nobody_made_it").render_as_string(hide_password=False)
    with closing(Database(nowhere)) as database, pytest.raises(StoreRefused, match="nobody_made_it"):
        await_database(database)
    with closing(Database(empty_postgres_url)) as database, pytest.raises(StoreUnavailable, match="itinerary migrate"):
        await_database(database)


def test_a_statement_that_takes_too_long_is_told_apart_from_a_database_that_is_away(postgres_url: str) -> None:
    bounds = Bounds(statement=50 * MILLISECOND)
    with (
        closing(Database(postgres_url, bounds=bounds)) as database,
        pytest.raises(StatementTimedOut),
        database.read() as connection,
    ):
        connection.exec_driver_sql("SELECT pg_sleep(5)")
