"""A leader that is told by workers of other releases: it leads on, and the doctor says which does not fit."""

from typing import Any

import pytest

from itinerary.protocol.keys import Keys
from itinerary.protocol.wire import PROTOCOL, entry
from scheduler_service.broker.client import connect
from scheduler_service.cli.doctor import examine
from scheduler_service.config.settings import Settings
from scheduler_service.sql.database import host_now
from tests.support.leading import LeaderThread
from tests.support.processes import wait_until

KEYS = Keys()

pytestmark = [pytest.mark.redis, pytest.mark.slow]


def test_the_doctor_names_the_worker_that_is_newer_than_the_service(
    sqlite_url: str, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(database_url=sqlite_url, redis_url=redis_url)
    beat: dict[str, Any] = {"concurrency": 1, "queues": ["q"], "running": [], "received": []}

    def doctor_after(worker: str, **more: int) -> str:
        client.xadd(KEYS.inbox, entry("heartbeat", host_now(), {**beat, "worker": worker, **more}))  # type: ignore[arg-type]
        capsys.readouterr()
        examine(settings)
        (line,) = (line for line in capsys.readouterr().out.splitlines() if line[6:].startswith("protocol "))
        return line

    with LeaderThread(sqlite_url, redis_url) as leader, connect(redis_url) as client:
        wait_until(lambda: "\nscheduler_is_leader 1.0\n" in leader.meter.exposition(), what="it to lead")
        assert doctor_after("before").startswith("ok ")
        assert doctor_after("today", protocol=PROTOCOL).startswith("ok ")
        said = doctor_after("tomorrow", protocol=PROTOCOL + 1)
        assert said.startswith(
            "FAIL  protocol    tomorrow: the worker's protocol 2 is newer than the service's 1: upgrade"
        )
