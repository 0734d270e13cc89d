"""Addresses behind Sentinels: ours, Celery's, and what is wrong with others."""

import time

import pytest
import redis

from itinerary.protocol.errors import BadValue
from itinerary.protocol.sentinel_urls import SentinelUrl, celerys_sentinel_url, read_sentinel_url
from itinerary.sentinel_client import master_client
from itinerary.worker.connection import redis_of
from scheduler_service.broker.client import connect
from scheduler_service.broker.dispatcher import publishing_app
from tests.support.processes import free_port

WHOLE = SentinelUrl((("one", 26379), ("two", 7)), "shop", 3, "me", "p/@,?", "watch", "s&t")


def test_both_forms_name_the_same_server() -> None:
    assert read_sentinel_url(WHOLE.text) == WHOLE
    again = celerys_sentinel_url(WHOLE.broker_url.split(";"), WHOLE.transport_options)
    assert read_sentinel_url(again) == WHOLE
    assert WHOLE.broker_url.split(";") == [
        "sentinel://me:p%2F%40%2C%3F@one:26379/3",
        "sentinel://me:p%2F%40%2C%3F@two:7/3",
    ]


def test_what_is_left_out_has_its_usual_value() -> None:
    at = read_sentinel_url("sentinel://one,two:7?master=shop")
    assert at == SentinelUrl((("one", 26379), ("two", 7)), "shop")
    assert at.login == at.sentinel_login == {}
    assert read_sentinel_url("sentinel://:pw@one/2?master=shop").login == {"password": "pw"}


def test_a_numeric_address_of_ipv6_has_brackets_in_urls_alone() -> None:
    at = read_sentinel_url("sentinel://[::1]:7,[fe80::2]?master=shop")
    assert at.hosts == (("::1", 7), ("fe80::2", 26379))
    assert at.text == "sentinel://[::1]:7,[fe80::2]:26379/0?master=shop"
    assert at.broker_url == "sentinel://[::1]:7/0;sentinel://[fe80::2]:26379/0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sentinel://one:1", "the name that the Sentinels monitor is missing"),
        ("sentinel://one/x?master=m", "give sentinel://"),
        ("sentinel://one?master=m&mastr=n", "mastr is not known there"),
        ("sentinel://:hunter2@?master=m", "give sentinel://"),
        ("sentinel://:hunter2@one:0?master=m", "give sentinel://"),
        ("sentinel://:hunter2@one:65536?master=m", "give sentinel://"),
    ],
)
def test_a_wrong_one_is_refused_without_its_password(text: str, message: str) -> None:
    with pytest.raises(BadValue, match=message) as refusal:
        read_sentinel_url(text, "ITINERARY_REDIS_URL")
    assert refusal.value.field == "ITINERARY_REDIS_URL"
    assert "hunter2" not in str(refusal.value)


def test_an_app_that_names_no_master_is_told_where_to() -> None:
    with pytest.raises(BadValue, match="master_name: put the name"):
        celerys_sentinel_url(["sentinel://one:26379"], {})


def test_an_app_may_list_its_sentinels() -> None:
    listed = ["sentinel://one:1", "sentinel://two"]
    found = redis_of(None, listed, {"master_name": "shop"})
    assert found == redis_of(None, ";".join(listed) + ";", {"master_name": "shop"})
    assert found == "sentinel://one:1,two:26379/0?master=shop"
    with pytest.raises(BadValue, match="broker_url"):
        redis_of(None, "sentinel://one/x", {"master_name": "shop"})


def test_the_address_of_attach_is_judged_at_the_start() -> None:
    with pytest.raises(BadValue, match="the name that the Sentinels monitor is missing"):
        redis_of("sentinel://one:26379", "redis://elsewhere", {})


def test_an_error_names_the_sentinels_and_no_login() -> None:
    port = free_port()
    client = master_client(f"sentinel://:hunter2@127.0.0.1:{port}?master=shop&sentinel_password=hunter3")
    with pytest.raises(redis.RedisError) as refusal:
        client.ping()
    assert str(refusal.value).startswith(f"no Sentinel of 127.0.0.1:{port} names a master 'shop' that is up")
    assert refusal.value.__context__ is None


def test_sentinels_that_are_down_cost_no_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []
    monkeypatch.setattr(time, "sleep", paused.append)
    monkeypatch.setattr(redis.retry, "sleep", paused.append)
    url = f"sentinel://127.0.0.1:{free_port()},127.0.0.1:{free_port()}?master=shop"
    with pytest.raises(redis.RedisError):
        connect(url).ping()
    with publishing_app(url).connection_for_write() as broker, pytest.raises(redis.RedisError):
        broker.connection.create_channel(broker.connection).client.ping()
    assert sum(paused) < 0.1
