"""Notifications through Apprise, sent by its own process to real servers on loopback."""

import json
import sys

import pytest

from itinerary.protocol.instants import parse_instant
from scheduler_service.core.notifications.notices import test_message as a_test_message
from scheduler_service.core.notifications.routing import Route
from scheduler_service.core.notifications.topics import Topic
from scheduler_service.notify import apprise_target
from scheduler_service.notify.apprise_target import AppriseTarget
from scheduler_service.notify.masking import masked
from scheduler_service.ports.notices import Delivery, DeliveryFailed, DeliveryRefused
from tests.support.processes import free_port
from tests.support.webhook_receiver import WebhookReceiver

pytestmark = pytest.mark.slow
NOW = parse_instant("2026-11-28T02:00:00Z")


def delivery() -> Delivery:
    message = a_test_message(NOW, "m-1")
    return Delivery("m-1", "a", Topic.TEST, json.dumps(message.body), NOW, 1)


def target(url: str) -> AppriseTarget:
    return AppriseTarget("oncall", url, Route())


def of(receiver: WebhookReceiver, path: str = "/hook") -> str:
    return receiver.address.replace("http://", "json://") + path


def test_a_message_arrives_in_words_and_the_library_stays_out_of_this_process() -> None:
    with WebhookReceiver() as receiver:
        assert target(of(receiver)).deliver(delivery()) == "sent"
    (post,) = receiver.posts
    assert post.body["title"] == "[Itinerary] A test: notifications arrive."
    assert post.body["message"] == "* notify.test\n    at 2026-11-28T02:00:00Z"
    assert post.body["type"] == "info"
    assert "apprise" not in sys.modules


def test_a_refusal_fails_for_now_and_says_why_without_the_address() -> None:
    with WebhookReceiver(404) as receiver, pytest.raises(DeliveryFailed, match="404") as failed:
        target(of(receiver, "/T0secret/B0secret?key=a%20secret")).deliver(delivery())
    assert "secret" not in str(failed.value)


def test_a_server_that_hangs_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apprise_target, "LONGEST", 1.5)
    with WebhookReceiver("hang") as receiver, pytest.raises(DeliveryFailed, match="in time"):
        target(of(receiver)).deliver(delivery())


def test_a_server_that_is_away_fails_for_now() -> None:
    with pytest.raises(DeliveryFailed):
        target(f"json://user:hunter2@127.0.0.1:{free_port()}/hook").deliver(delivery())


def test_an_address_that_apprise_does_not_understand_is_refused_for_good_and_not_shown() -> None:
    with pytest.raises(DeliveryRefused, match="channel oncall; correct it") as refused:
        target("nosuchservice://hunter2").deliver(delivery())
    assert "hunter2" not in str(refused.value)


def test_neither_host_nor_login_of_an_address_is_shown_since_they_may_be_tokens() -> None:
    url = "slack://T0AAAAAAA:B0BBBBBBB@C0CCCCCCC/D0DDDDDDD?e=E0EEEEEEE"
    assert masked("for T0AAAAAAA B0BBBBBBB C0CCCCCCC D0DDDDDDD E0EEEEEEE", url, host=True) == "for *** *** *** *** ***"
