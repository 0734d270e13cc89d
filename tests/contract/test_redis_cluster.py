"""A node of a Redis Cluster behind a plain address: each part refuses it in one line that says what to give."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from itinerary.protocol.errors import BadValue, BrokerUnavailable
from itinerary.server_traits import CLUSTER, is_cluster
from itinerary.worker.beacon import misfit
from itinerary.worker.connection import RedisConnection
from scheduler_service.api.http.serve import serve
from scheduler_service.bootstrap.parts import run_leader
from scheduler_service.broker.client import connect
from scheduler_service.broker.dispatcher import publishing_app
from scheduler_service.broker.inbox import RedisInbox
from scheduler_service.cli.doctor import examine
from scheduler_service.config.settings import Settings, load_settings
from scheduler_service.local.up import run_up
from tests.support.processes import free_port
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    # The default is 10,000 above its port, which a connection may have.
    own = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    with RedisServer(tmp_path_factory.mktemp("node"), None, *own) as running:
        yield running


@pytest.mark.parametrize("part", [run_leader, serve, run_up])
@pytest.mark.parametrize("setting", ["redis_url", "broker_url"])
def test_leader_api_and_up_refuse_it_by_the_name_of_the_setting(
    part: Callable[[Settings], object], setting: str, node: RedisServer, redis_url: str, sqlite_url: str, tmp_path: Path
) -> None:
    url = node.url.replace("redis://", "redis://default:hunter2@")
    with node.client() as client:
        client.execute_command("ACL", "SETUSER", "default", "resetpass", ">hunter2")
    try:
        given = {"redis_url": redis_url, setting: url}
        settings = load_settings(database_url=sqlite_url, data_dir=tmp_path, **given)
        with pytest.raises(BadValue) as refused:
            part(settings)
    finally:
        with closing(connect(url)) as client:
            client.execute_command("ACL", "SETUSER", "default", "nopass")
    shown = node.url.replace("redis://", "redis://default:***@")
    assert str(refused.value) == f"ITINERARY_{setting.upper()}: '{shown}' is not accepted; {CLUSTER}"


def test_a_worker_refuses_it_and_the_doctor_names_it(
    node: RedisServer, sqlite_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = RedisConnection(node.url)
    with closing(connection.client):
        assert misfit(publishing_app(node.url), connection, patience=0) == f"its Redis: {CLUSTER}"
    assert examine(Settings(database_url=sqlite_url, redis_url=node.url)) == 1
    assert f"is not accepted; {CLUSTER}" in capsys.readouterr().out


def test_one_that_came_up_later_is_named_in_every_error(node: RedisServer) -> None:
    with closing(RedisInbox(node.url)) as inbox, pytest.raises(BrokerUnavailable, match="a node of a Redis Cluster"):
        inbox.depth()


def test_a_plain_server_is_none(redis_url: str, valkey_url: str) -> None:
    for url in (redis_url, valkey_url):
        with closing(connect(url)) as client:
            assert not is_cluster(client)
