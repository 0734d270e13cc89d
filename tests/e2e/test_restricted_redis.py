"""All parts on servers that allow less, or ask for more, than a plain Redis does."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from itinerary.protocol.wire import WITHOUT_INFO
from scheduler_service.core.run_state import RunState
from tests.support.installation import Installation
from tests.support.redis_server import RedisServer

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
