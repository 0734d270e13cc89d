"""The API over a real database and a real Redis, asked without a network between."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi.testclient import TestClient

from itinerary.protocol.instants import HOUR
from scheduler_service.api.app import build_app
from scheduler_service.api.context import ApiContext, system_clock
from scheduler_service.api.http import rate_limit
from scheduler_service.api.services import leader_line
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.api.services.plans import Plans
from scheduler_service.bootstrap.parts import Stores, open_stores
from scheduler_service.config.settings import Settings
from scheduler_service.sql.database import Database
from scheduler_service.sql.lease import SqlLeaseStore
from tests.support.answering_leader import AnsweringLeader
from tests.support.command_line import Itinerary
from tests.support.limits import define
from tests.support.processes import free_port, project_env
from tests.support.warm_command import ServiceChild

OWN_ADDRESS = "http://127.0.0.1"
_documents: dict[bool, dict[str, Any] | None] = {}
"""The OpenAPI document of an app with tokens, and of one without: it takes long, and each test has its own app."""


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("ITINERARY_"):
            monkeypatch.delenv(name)


@pytest.fixture
def settings(sqlite_url: str, redis_url: str) -> Settings:
    return Settings(database_url=sqlite_url, redis_url=redis_url)


@pytest.fixture
def stores(settings: Settings) -> Iterator[Stores]:
    with open_stores(settings) as opened:
        yield opened


@pytest.fixture(scope="session")
def event_loop() -> Iterator[BlockingPortal]:
    """The event loop that all clients share: each would start one, with a thread, for each request."""
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def client_of(stores: Stores, event_loop: BlockingPortal) -> Iterator[Callable[[Settings], TestClient]]:
    """A client of an API with these settings over the test's stores."""
    with ExitStack() as stack:

        def make(settings: Settings) -> TestClient:
            plans = Plans(patience=30)  # a busy machine counts late, and the page is read once
            context = ApiContext(settings, stores, LeaderLine(stores.inbox, system_clock), system_clock, plans=plans)
            app = build_app(context)
            app.openapi_schema = _documents.get(settings.asks_who)
            stack.callback(lambda: _documents.update({settings.asks_who: app.openapi_schema}))
            client = TestClient(app, base_url=OWN_ADDRESS, raise_server_exceptions=False)
            client.portal = event_loop
            stack.callback(client.close)
            return client

        yield make


@pytest.fixture
def api(client_of: Callable[[Settings], TestClient], settings: Settings) -> TestClient:
    return client_of(settings)


@pytest.fixture
def rate_clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of every rate limit, which stand still: no request comes too late to be one too many."""
    now = [0.0]
    monkeypatch.setattr(rate_limit, "Buckets", partial(rate_limit.Buckets, clock=lambda: now[0]))
    return now


@pytest.fixture
def limits(stores: Stores) -> None:
    """The limits `api`, and `tenant` with keys."""
    define(stores.limit_store)


@pytest.fixture
def leader(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[AnsweringLeader]:
    """Somebody holds the lease and answers, for however long a test takes."""
    monkeypatch.setattr(leader_line, "ANSWER_WITHIN", HOUR)
    database = Database(settings.database_url, pool_size=1)
    leases = SqlLeaseStore(database)
    lease = leases.acquire(0, "test-holder", HOUR)
    assert lease is not None
    with AnsweringLeader(settings.redis_url) as answering:
        yield answering
    database.close()


@pytest.fixture
def job() -> dict[str, Any]:
    """The least that a job needs."""
    return {"job_id": "a.job", "task": "itinerary.echo", "schedule": {"kind": "interval", "every": "25m"}}


@pytest.fixture(scope="module")
def itinerary(
    _sqlite_template: Path, _session_redis: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Itinerary]:
    """One API process for all tests of this module: each uses names of its own."""
    folder = tmp_path_factory.mktemp("itinerary")
    shutil.copy(_sqlite_template, folder / "itinerary.db")
    env = project_env(
        ITINERARY_REDIS_URL=_session_redis, ITINERARY_DATA_DIR=str(folder), ITINERARY_API_PORT=str(free_port()),
        TZ="Europe/Berlin",
    )  # fmt: skip
    with ServiceChild("api", env=env) as api:
        api.wait_for_line("api starting")
        yield Itinerary(env)
        assert api.running, api.output
        assert api.stop() in (0, -15), api.output
