"""`itinerary notify`, and what doctor and dashboard say of notifications."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import MINUTE
from scheduler_service.bootstrap.notifications import targets_of
from scheduler_service.cli.doctor import examine
from scheduler_service.cli.notify import try_out
from scheduler_service.config.settings import Settings, load_settings
from scheduler_service.core.notifications.notices import Message, Notice
from scheduler_service.core.notifications.topics import Topic
from scheduler_service.sql.database import Database
from scheduler_service.sql.outbox import SqlOutbox
from tests.support.answering_leader import AnsweringLeader
from tests.support.command_line import Itinerary
from tests.support.processes import free_port, project_env
from tests.support.webhook_receiver import SECRET, WebhookReceiver, is_signed


@pytest.fixture
def told(settings: Settings) -> Settings:
    """Settings by which somebody is told."""
    return load_settings(
        database_url=settings.database_url, redis_url=settings.redis_url,
        notify_webhooks="https://hooks.example/s3cret", notify_secret=SECRET,
    )  # fmt: skip


@pytest.fixture
def outbox(told: Settings) -> Iterator[SqlOutbox]:
    with closing(Database(told.database_url, pool_size=2)) as database:
        yield SqlOutbox(database)


def give_up(outbox: SqlOutbox, told: Settings) -> None:
    """A message to the webhook that nobody will bring."""
    name = targets_of(told)[0].name
    outbox.hold(Topic.LEADER_ABSENT, [Notice(Topic.LEADER_ABSENT, "leader", 1, 1, 1, {})])
    message = partial(Message, "m-1", Topic.LEADER_ABSENT, {"a": 1}, targets=(name,))
    assert outbox.seal(0, lambda w, *_: [message(notices=(w[0].notice,))]) == 1
    delivery = outbox.claim([name], MINUTE)
    assert delivery is not None
    outbox.failed(delivery, "hooks.example answered 410", None)


def test_doctor_says_who_is_told_and_what_was_given_up(
    told: Settings, outbox: SqlOutbox, leader: AnsweringLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    examine(told)
    said = capsys.readouterr().out
    assert "ok    notices     hooks.example#" in said
    assert "0 to be delivered" in said
    give_up(outbox, told)
    assert examine(told) == 1
    said = capsys.readouterr().out
    assert "FAIL  notices     1 given up, the last for hooks.example#" in said
    assert "answered 410" in said
    assert "itinerary notify retry" in said
    assert "s3cret" not in said


def test_doctor_is_content_where_nobody_is_told(
    settings: Settings, leader: AnsweringLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    examine(settings)
    assert "ok    notices     off: " in capsys.readouterr().out


def test_the_first_page_names_notifications_that_were_given_up(
    client_of: Callable[[Settings], TestClient], told: Settings, outbox: SqlOutbox, leader: AnsweringLeader
) -> None:
    api = client_of(told)
    assert "given up" not in api.get("/").text
    give_up(outbox, told)
    page = api.get("/").text
    assert "1 notification was given up, the last for hooks.example#" in page
    assert "s3cret" not in page


def test_a_target_that_raises_what_none_should_is_shown_as_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ITINERARY_NOTIFY_EMAIL_TO", "ops@example.org")
    monkeypatch.setenv("ITINERARY_SMTP_URL", f"smtp://{'a' * 64}.example")  # no name that could be looked up
    with pytest.raises(SystemExit):
        try_out()
    assert re.fullmatch(r"FAIL  mail by a+\.example  Unicode\w*Error\n", capsys.readouterr().out)


@pytest.mark.slow
def test_the_command_sends_a_test_to_everybody_and_says_what_came_back(told: Settings, outbox: SqlOutbox) -> None:
    with WebhookReceiver() as well, WebhookReceiver(500) as broken, WebhookReceiver() as chat:
        url = chat.address.replace("http:", "json:")
        env = {
            "ITINERARY_DATABASE_URL": told.database_url,
            "ITINERARY_NOTIFY_WEBHOOKS": f"{well.url},{broken.url}?token=s3cret",
            "ITINERARY_NOTIFY_SECRET": SECRET,
            "ITINERARY_NOTIFY_EMAIL_TO": "ops@example.org",
            "ITINERARY_SMTP_URL": f"smtp://127.0.0.1:{free_port()}",
            "ITINERARY_NOTIFY_ALLOW_PRIVATE": "true",
            "ITINERARY_NOTIFY_CHANNELS": json.dumps([{"name": "chat", "urls": [f"{url}/s3cret"], "tags": ["a"]}]),
        }
        itinerary = Itinerary(project_env(**env))
        ended = itinerary("notify", "test", "--json")
        assert (ended.returncode, ended.stderr) == (1, "")
        items = json.loads(ended.stdout)["items"]
        assert [item["well"] for item in items] == [True, False, False, True]
        assert "answered 500" in items[1]["words"]
        assert "ConnectionRefused" in items[2]["words"]
        assert items[3]["target"].startswith("chat#")
        assert [post.path for post in chat.posts] == ["/s3cret"]
        assert "s3cret" not in ended.stdout
        (post,) = well.posts
        assert is_signed(post)
        assert post.body["type"] == "notify.test"
        give_up(outbox, told)
        assert itinerary.done("notify", "retry") == "1 to be sent again\n"
    none = Itinerary(project_env(ITINERARY_DATABASE_URL=told.database_url))("notify", "test")
    assert none.returncode == 2
    assert "ITINERARY_NOTIFY_EMAIL_TO" in none.stderr
