"""Notifications of a whole deployment: a failure told in spite of kills, leaders lost, and nobody left to lead."""

import json
from pathlib import Path

import pytest

from tests.support.deployment import Deployment
from tests.support.processes import PATIENCE, wait_until
from tests.support.webhook_receiver import SECRET, WebhookReceiver, is_signed

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.postgres, pytest.mark.redis]


def channel_to(receiver: WebhookReceiver) -> str:
    url = receiver.address.replace("http:", "json:")
    return json.dumps([{"name": "chat", "urls": [url], "queues": ["def*"], "events": ["run.failed"]}])


def missed_slas(receiver: WebhookReceiver) -> list[str]:
    items = [item for post in receiver.of_type("run.sla_missed") for item in post.body["data"]["items"]]
    return [item["task"] for item in items for _ in range(item["count"])]


def test_what_goes_wrong_is_told_once_whoever_is_killed(tmp_path: Path, postgres_url: str) -> None:
    with (
        WebhookReceiver(503, 200, event="run.failed") as receiver,
        WebhookReceiver("hang", 503, 200) as chat,
        Deployment(
            tmp_path, postgres_url, app="itinerary.worker.celery_app:app",
            ITINERARY_NOTIFY_WEBHOOKS=receiver.url, ITINERARY_NOTIFY_SECRET=SECRET,
            ITINERARY_NOTIFY_ALLOW_PRIVATE="true", ITINERARY_NOTIFY_CHANNELS=channel_to(chat),
        ) as deployed,
    ):  # fmt: skip
        with deployed.client() as client:
            client.pause_queue("held", "test")
            # One runs for too long, over the takeover; one never starts. Both are due at one time, and told together.
            sleeps = {"task": "itinerary.sleep", "args": [100], "must_end_within": "1s"}
            client.enqueue_batch([{**sleeps, "queue": queue} for queue in ("default", "held")])
            client.enqueue_batch([{"task": "itinerary.fail", "kwargs": {"message": "no such order"}}] * 20)
        tried = lambda: [post for post in list(receiver.posts) if post.body["type"] == "run.failed"]  # noqa: E731
        wait_until(tried, what=lambda: deployed.output)
        assert receiver.of_type("run.failed") == []
        # The channel hangs, but no run waits for it.
        wait_until(lambda: chat.posts, what=lambda: deployed.output)
        with deployed.client() as client:
            assert client.wait(client.enqueue("itinerary.echo")["run_id"], timeout=PATIENCE)["state"] == "completed"

        # The failures are committed and their message was refused: another leader brings it, and says who was lost.
        deployed.parts[deployed.leading()].kill_alone()
        wait_until(lambda: receiver.of_type("run.failed"), what=lambda: deployed.output)
        wait_until(lambda: receiver.of_type("leader.lost"), what=lambda: deployed.output)
        (failed,) = receiver.of_type("run.failed")
        assert failed.message_id == tried()[0].message_id
        (item,) = failed.body["data"]["items"]
        assert (item["job_id"], item["task"]) == (None, "itinerary.fail")
        assert item["error"] == {"type": "RuntimeError", "message": "no such order"}
        assert 1 <= item["count"] <= 20, "how many had failed when it was made"
        assert all(map(is_signed, receiver.posts))

        # The channel gets what it asked for, from the next leader.
        wait_until(lambda: chat.taken, what=lambda: deployed.output)
        runs = "1 run" if item["count"] == 1 else f"{item['count']} runs"
        title = f"[Itinerary] {runs} failed for good (itinerary.fail)."
        assert [post.body["title"] for post in chat.taken] == [title]

        # The SLAs are missed once, whoever leads.
        wait_until(lambda: len(missed_slas(receiver)) == 2, what=lambda: deployed.output)

        # Nobody is left to lead: the API says so.
        for name in ("leader-1", "leader-2"):
            if deployed.parts[name].running:
                deployed.parts[name].kill_alone()
        wait_until(lambda: receiver.of_type("leader.absent"), what=lambda: deployed.output)
        (absent,) = receiver.of_type("leader.absent")
        assert absent.body["text"] == "nobody leads: nothing is started"
        assert len(receiver.of_type("run.failed")) == 1
        assert len(missed_slas(receiver)) == 2
        assert "notifications failed" not in deployed.output
