"""A Redis that refuses INFO and CONFIG, as managed services do: what stands for its run id, and what that notices."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from itinerary.protocol.keys import Keys
from itinerary.worker.beacon import misfit
from itinerary.worker.claim import Verdict, claim
from itinerary.worker.connection import RedisConnection
from itinerary.worker.heartbeat import QUERY_EPOCH
from scheduler_service.broker.claims import RedisClaims
from scheduler_service.broker.dispatcher import CeleryDispatcher, publishing_app
from scheduler_service.broker.inbox import RedisInbox
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.redis

KEYS = Keys()
RENAMED = ("--rename-command", "INFO", "", "--rename-command", "CONFIG", "")
DENIED = ("--user", "default", "on", "nopass", "~*", "&*", "+@all", "-info", "-config")


@pytest.fixture(params=[RENAMED, DENIED], ids=["renamed", "denied"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path, None, *request.param) as running:
        yield running


def asked(server: RedisServer, run: str) -> Verdict:
    connection = RedisConnection(server.url)
    with closing(connection.client):
        return claim(connection, f"{run}~1", f"token of {server.port}", "worker", 0)


def accepted(claims: RedisClaims) -> str:
    name = claims.query_epoch().name
    assert claims.accept(name, 1)
    return name


def test_the_parts_work_and_the_mark_changes_with_the_leader_s_connection_and_with_lost_data(
    server: RedisServer,
) -> None:
    with closing(RedisClaims(server.url)) as claims, server.client() as client:
        assert asked(server, "early") is Verdict.WAIT
        name = accepted(claims)
        assert claims.query_epoch() == claims.query_epoch()
        assert (claims.query_epoch().name, claims.query_epoch().accepted) == (name, True)
        assert asked(server, "one") is Verdict.WON
        assert claims.take(["one~1", "two~1"]) == [False, True]
        assert claims.recall([("one~1", 9), ("four~1", 9)]) == [False, True]
        assert claims.raise_watermarks({"q": 7}, 3) == {"q": 7}
        assert claims.eviction_policy() == "unknown"
        worker: list[str] = client.eval(QUERY_EPOCH, 3, KEYS.epoch, KEYS.epoch_seen, KEYS.server_mark, "w")  # type: ignore[assignment]
        assert worker[0] == name, "a worker's question changes nothing"

        client.client_kill_filter(_type="normal", skipme=True)
        again = claims.query_epoch()
        assert again.name != name
        assert not again.accepted
        assert asked(server, "three") is Verdict.WAIT
        assert claims.accept(again.name, 1)

        client.flushall()
        assert asked(server, "one") is Verdict.WAIT
        assert not claims.query_epoch().accepted
        accepted(claims)
        with closing(RedisClaims(server.url)) as next_leader:
            assert not next_leader.query_epoch().accepted


def test_data_that_went_back_in_time_are_noticed_though_the_mark_is_among_them(
    server: RedisServer, tmp_path: Path
) -> None:
    with closing(RedisClaims(server.url)) as claims:
        accepted(claims)
        shutil.copytree(server.folder, tmp_path / "copy")
        assert asked(server, "one") is Verdict.WON
        server.kill()
        shutil.rmtree(server.folder)
        shutil.copytree(tmp_path / "copy", server.folder)
        server.start()
        with server.client() as client:
            assert client.exists(KEYS.server_mark)
            assert not client.exists(KEYS.claim("one~1")), "this claim is lost"
        assert not claims.query_epoch().accepted
        assert asked(server, "one") is Verdict.WAIT
        accepted(claims)
        # A proxy may keep the leader's connection while a server with older data takes over behind it.
        with server.client() as client:
            client.hset(KEYS.server_mark, "tick", "an older one")
        assert not claims.query_epoch().accepted


def test_leader_and_worker_with_unlike_rights_are_told(redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.execute_command("ACL", "SETUSER", "narrow", "on", ">secret", "~*", "&*", "+@all", "-info")
    narrow = redis_server.url.replace("redis://", "redis://narrow:secret@")
    for leaders, workers, why in (
        (redis_server.url, narrow, "the leader may call INFO of Redis and the worker may not"),
        (narrow, redis_server.url, "the worker may call INFO of Redis and the leader may not"),
        (narrow, narrow, None),
    ):
        app = publishing_app(redis_server.url)
        connection = RedisConnection(workers)
        with (
            closing(CeleryDispatcher(app)) as dispatcher,
            closing(RedisClaims(leaders)) as claims,
            closing(connection.client),
            closing(RedisInbox(leaders)) as inbox,
        ):
            assert inbox.depth() == 0
            claims.announce({"v": 1, "broker": dispatcher.mark()})
            found = misfit(app, connection, patience=0)
        assert found is None if why is None else why in str(found)
