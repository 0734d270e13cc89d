"""Several installations on one database of one Redis: each has its own keys, and none sees another."""

import sys
from contextlib import closing
from pathlib import Path

import pytest
import redis

from itinerary.protocol.keys import PREFIXES, Keys
from scheduler_service.broker.dispatcher import CeleryDispatcher, publishing_app
from scheduler_service.core.run_state import RunState
from tests.support.installation import Installation
from tests.support.processes import Child, project_env
from tests.support.worker_process import dispatched

pytestmark = [pytest.mark.redis, pytest.mark.e2e, pytest.mark.slow]


def test_two_installations_share_a_redis_database_and_see_nothing_of_each_other(
    sqlite_url: str, redis_url: str, tmp_path: Path
) -> None:
    other_url = f"sqlite:///{tmp_path}/other.db"
    Path(f"{tmp_path}/other.db").write_bytes(Path(sqlite_url.removeprefix("sqlite:///")).read_bytes())
    plain = Installation({"ITINERARY_REDIS_URL": redis_url}, database_url=sqlite_url, redis_url=redis_url)
    shop = Installation(
        {"ITINERARY_REDIS_URL": redis_url, "ITINERARY_KEY_PREFIX": "shop:"},
        queue="shop",
        database_url=other_url,
        redis_url=redis_url,
        key_prefix="shop:",
    )
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        with plain, shop:
            ended = [one.ended(one.enqueue("same-name")) for one in (plain, shop)]
            assert [run.state for run in ended] == [RunState.COMPLETED] * 2
            known = [one.doctor()["workers"] for one in (plain, shop)]
            assert all("ok    workers     1 seen" in line for line in known)
            assert known[0] != known[1]
            # The other's messages, which only a shared queue brings here, start nothing and report nothing.
            with closing(CeleryDispatcher(publishing_app(redis_url), "shop:")) as dispatcher:
                dispatcher.publish([dispatched("stray", "itinerary.echo", "hi"), dispatched("unknown", "no.such")])
            for name in ("stray~1", "unknown~1"):
                line = plain.worker.wait_for_line(f"{name} is not started")
                assert "a service with the key prefix 'shop:' sent it, and this worker has ''" in line
            wrong = Child(
                [sys.executable, "-m", "itinerary", "worker", "-c", "1", "-P", "solo"],
                env=project_env(ITINERARY_REDIS_URL=redis_url, ITINERARY_KEY_PREFIX="stop:"),
            )
            with wrong:
                assert wrong.wait() != 0
            assert (
                "no leader with the key prefix 'stop:' was ever active in its Redis, but those of '', 'shop:' are"
                in (wrong.output)
            )
        ours = {key for key in client.keys("*") if "itinerary:" in key}
    assert ours - {PREFIXES} == {key for key in ours if key.startswith(("itinerary:", "shop:itinerary:"))} - {PREFIXES}
    assert not [key for key in ours if key.endswith(("stray~1", "unknown~1"))]
    for keys in (Keys(), Keys("shop:")):
        assert {keys.epoch, keys.epoch_seen, keys.epoch_of_broker, keys.redis_mark, keys.broker_mark} <= ours
