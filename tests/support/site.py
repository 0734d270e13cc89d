"""The whole product but its workers in this process: a real leader, the API on a real socket, real stores."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from scheduler_service.api.app import build_app
from scheduler_service.api.context import ApiContext, system_clock
from scheduler_service.api.http.serve import Server, listening, server_config
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.api.services.plans import Plans
from scheduler_service.bootstrap.parts import open_stores
from scheduler_service.config.settings import Settings
from scheduler_service.sql.database import Database
from tests.support.processes import free_port, wait_until


@dataclass(frozen=True)
class Site:
    """Where it answers, and its database."""

    url: str
    database: Database


@contextmanager
def serving(database_url: str, redis_url: str, receive_timeout: str = "30s", **given: Any) -> Iterator[Site]:
    """The API of these stores, served until the end of the block, with settings that are given as texts."""
    settings = Settings(
        database_url=database_url, redis_url=redis_url,
        api_receive_timeout=receive_timeout,  # type: ignore[arg-type]  # a text is read
        **{"api_port": free_port()} | given,
    )  # fmt: skip
    with listening(settings) as listener, open_stores(settings) as stores:
        plans = Plans(patience=30)  # a page that draws its counts anew takes the place of what is clicked
        context = ApiContext(settings, stores, LeaderLine(stores.inbox, system_clock), system_clock, plans=plans)
        server = Server(server_config(build_app(context), settings))
        thread = threading.Thread(target=lambda: server.run(sockets=[listener]), name="api")
        thread.start()
        try:
            wait_until(lambda: server.started, what="the API")
            yield Site(f"http://127.0.0.1:{settings.api_port}", Database(database_url, pool_size=1))
        finally:
            server.should_exit = True
            thread.join(60)
