"""All parts on servers that allow less, or ask for more, than a plain Redis does."""

from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from itinerary.protocol.errors import BrokerUnavailable
from itinerary.protocol.wire import WITHOUT_INFO
from scheduler_service.broker.inbox import RedisInbox
from scheduler_service.core.run_state import RunState
from tests.support.installation import Installation
from tests.support.processes import Child, project_env
from tests.support.redis_server import RedisServer
from tests.support.tls_redis import TlsRedis
from tests.support.worker_process import WORKER_PYTHON

pytestmark = [pytest.mark.redis, pytest.mark.e2e, pytest.mark.slow]


def test_a_run_completes_without_info_and_config_and_each_part_says_what_is_lost(
    sqlite_url: str, tmp_path: Path
) -> None:
    renamed = ("--rename-command", "INFO", "", "--rename-command", "CONFIG", "")
    with RedisServer(tmp_path, None, *renamed) as server, capture_logs() as logs:
        variables = {"ITINERARY_REDIS_URL": server.url}
        with Installation(variables, database_url=sqlite_url, redis_url=server.url) as one:
            assert one.ended(one.enqueue("plain")).state is RunState.COMPLETED
            findings = one.doctor()
            said = one.worker.output
    assert [line["log_level"] for line in logs if line["event"] == WITHOUT_INFO] == ["warning"]
    assert not [line for line in logs if line["log_level"] in ("error", "critical")]
    assert said.count(WITHOUT_INFO) == 1
    assert findings["redis data"].startswith(f"--    redis data  {WITHOUT_INFO}")
    assert "whose version is not known" in findings["redis"]
    assert not [line for line in findings.values() if line.startswith("FAIL")]


def test_a_run_completes_over_tls_with_client_certificates_that_the_addresses_name(
    sqlite_url: str, tmp_path: Path
) -> None:
    with TlsRedis(tmp_path) as server:
        for url in (server.bare, server.plain):  # no certificate of a client, no TLS
            with closing(RedisInbox(url)) as inbox, pytest.raises(BrokerUnavailable):
                inbox.depth()
        of_app = project_env(ITINERARY_REDIS_URL=server.url, USERAPP_BROKER=server.url, TRUTH=str(tmp_path / "truth"))
        app = ["-m", "celery", "-A", "tests.workers.userapp", "worker", "-P", "solo", "-Q", "own"]
        variables = {"ITINERARY_REDIS_URL": server.url}
        with (
            Child([WORKER_PYTHON, *app], env=of_app) as child,
            Installation(variables, database_url=sqlite_url, redis_url=server.url) as one,
        ):
            assert one.ended(one.enqueue("plain")).state is RunState.COMPLETED
            ended = one.ended(one.enqueue("of the app", "user.add", (1, 2), queue="own"))
            assert ended.state is RunState.COMPLETED, child.output
            assert not [line for line in one.doctor().values() if line.startswith("FAIL")]
