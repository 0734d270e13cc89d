"""One reader of database and Redis URLs: odd passwords connect as they were meant, and are never shown."""

from urllib.parse import quote

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from kombu.utils.url import parse_url
from psycopg.conninfo import conninfo_to_dict

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.service_urls import read_service_url, redis_url
from scheduler_service.config.settings import load_settings
from scheduler_service.runtime.addresses import shown_url
from scheduler_service.sql.database_url import libpq_options, read_url

# "=" too, would it not make "@h?user=" part of a query; a percent sign only where no hex digits follow.
ODD = st.text("/ @:#%?+&,;[]'\"\\xyzgG~é$", min_size=1).map(lambda text: f"Xx{text}xX")
SCHEMES = ("postgresql", "redis", "amqp")


@given(ODD, st.sampled_from(SCHEMES), st.booleans(), st.sampled_from(("h:5432", "h", "[::1]:5432", "a:1,b:2")))
def test_a_password_of_any_letters_is_read_as_meant_and_never_shown(
    password: str, scheme: str, encoded: bool, hosts: str
) -> None:
    written = quote(password, safe="") if encoded else password
    url = read_service_url(f"{scheme}://user:{written}@{hosts}/name?a=b", "x")
    assert (url.user, url.password, ",".join(url.hosts), url.database) == ("user", password, hosts, "name")
    assert read_service_url(url.text, "x") == url, "what it writes reads back as the same"
    assert url.shown == f"{scheme}://user:***@{hosts}/name?a=b"
    assert password not in repr(url)
    assert shown_url(f"cannot reach {url.text}, again") == f"cannot reach {url.shown}, again"


@given(ODD)
def test_every_library_reads_what_the_settings_hold_as_the_same_password(password: str) -> None:
    settings = load_settings(
        database_url=f"postgresql://u:{password}@h:5432/d",
        redis_url=f"redis://:{password}@h:6379/2",
        broker_url=f"amqp://u:{password}@h:5672//",
    )
    assert libpq_options(read_url(settings.database_url))["password"] == password
    assert conninfo_to_dict(settings.database_url)["password"] == password
    assert redis.Redis.from_url(redis_url(settings.redis_url)).get_connection_kwargs()["password"] == password
    assert parse_url(settings.redis_url)["password"] == password
    assert parse_url(settings.broker_url)["password"] == password
    for name in ("database_url", "redis_url", "broker_url"):
        assert password not in shown_url(getattr(settings, name))
        assert password not in repr(settings)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ("postgresql://h1:1,h2:2/d?target_session_attrs=read-write",
         {"host": "h1,h2", "port": "1,2", "dbname": "d", "target_session_attrs": "read-write"}),
        ("postgres://u:p%40@h1,h2/d", {"host": "h1,h2", "user": "u", "password": "p@", "dbname": "d"}),
        ("postgresql://u:p@/d?host=h1:1&host=h2:2", {"host": "h1,h2", "port": "1,2", "user": "u", "password": "p"}),
        ("postgresql:///d?host=/var/run/postgresql&user=a@b", {"host": "/var/run/postgresql", "user": "a@b"}),
        ("postgresql://[::1]:5/d?password=a%26b", {"host": "::1", "port": 5, "password": "a&b"}),
        ("postgresql://h/a%20b?options=-csearch_path%3Dsched", {"dbname": "a b", "options": "-csearch_path=sched"}),
    ],
)  # fmt: skip
def test_libpq_s_forms_of_a_url_connect(given: str, options: dict[str, object]) -> None:
    for text in (given, load_settings(database_url=given).database_url):
        found = libpq_options(read_url(text))
        assert {name: str(found[name]).strip(",") for name in options} == {n: str(v) for n, v in options.items()}


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://u:S3CR3T@h:port/d", "postgresql://u:S3CR3T@h/d?what", "mysql://u:S3CR3T@h/d",
        "host=h password=S3CR3T", "user=u password='a S3CR3T'",
        "u:S3CR3T@h/d", "postgresql://u:S3CR3T", "postgresql://u:S3CR3T@h:123456/d", "",
    ],
)  # fmt: skip
def test_a_url_that_is_refused_is_not_shown(given: str) -> None:
    with pytest.raises(BadValue) as refused:
        read_url(given)
    with pytest.raises(BadValues) as of_settings:
        load_settings(database_url=given, redis_url="redis://:S3CR3T@h:port/0")
    assert "S3CR3T" not in f"{refused.value} {of_settings.value}"
    assert "database_url" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:S3CR3T/x@h/d", "postgresql://u:a@S3CR3T@h/d", "redis://:S3CR3T?x@h/0", "amqps://u:S3CR3T#x@h//",
        "host=h password=S3CR3T dbname=d", "password = 'a S3CR3T b'", 'password="S3CR3T"', "redis://h/0?password=S3CR3T",
        "postgresql://h/d?sslpassword=S3CR3T&x=y", "https://u:S3CR3T@h/a@b",
    ],
)  # fmt: skip
def test_a_text_with_an_address_in_it_is_logged_without_its_password(text: str) -> None:
    assert "S3CR3T" not in shown_url(f"cannot do it: {text}")


def test_what_is_no_password_is_shown() -> None:
    for text in ("http://h:8080/jobs/a@b.c", "sqlite:////a/b@c:d.db", "redis://h:6379/0", "postgresql:///d?host=/run"):
        assert shown_url(text) == text


def test_a_unix_socket_is_read_in_both_spellings() -> None:
    assert redis_url("redis+socket:///run/redis.sock?virtual_host=3") == "unix:///run/redis.sock?db=3"
    assert redis_url("unix://:p/w@/run/redis.sock?db=1") == "unix://:p%2Fw@/run/redis.sock?db=1"
