"""Addresses behind Sentinels: ours, Celery's, and what is wrong with others."""

import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.sentinel_urls import SentinelUrl, celerys_sentinel_url, read_sentinel_url

WHOLE = SentinelUrl((("one", 26379), ("two", 7)), "shop", 3, "me", "p/@,?", "watch", "s&t")


def test_both_forms_name_the_same_server() -> None:
    assert read_sentinel_url(WHOLE.text) == WHOLE
    again = celerys_sentinel_url(WHOLE.broker_url, WHOLE.transport_options)
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sentinel://one:1", "the name that the Sentinels monitor is missing"),
        ("sentinel://one/x?master=m", "give sentinel://"),
        ("sentinel://one?master=m&mastr=n", "mastr is not known there"),
        ("sentinel://:hunter2@?master=m", "give sentinel://"),
    ],
)
def test_a_wrong_one_is_refused_without_its_password(text: str, message: str) -> None:
    with pytest.raises(BadValue, match=message) as refusal:
        read_sentinel_url(text, "ITINERARY_REDIS_URL")
    assert refusal.value.field == "ITINERARY_REDIS_URL"
    assert "hunter2" not in str(refusal.value)


def test_an_app_that_names_no_master_is_told_where_to() -> None:
    with pytest.raises(BadValue, match="master_name: put the name"):
        celerys_sentinel_url("sentinel://one:26379", {})
