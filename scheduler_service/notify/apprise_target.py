"""An address that Apprise understands as a Target: Slack, Teams, Telegram, PagerDuty and a hundred more.

Each message is sent by a process of its own (`notify/apprise_child.py`), ended when it takes too long. The address is
the operator's configuration: it may lead anywhere, also to this host. It is handed over on stdin, never as an argument.
"""

import json
import os
import subprocess
import sys
from typing import Any, Final

from scheduler_service.core.notifications.routing import Route
from scheduler_service.core.notifications.topics import Topic
from scheduler_service.notify.masking import digest
from scheduler_service.notify.texts import lines_of
from scheduler_service.ports.notices import Delivery, DeliveryFailed, DeliveryRefused, Target

LONGEST: Final = 15.0
"""The time limit for sending; shorter than a claim, so that no other process sends it meanwhile."""

# Nothing else of this process's environment, which holds its secrets.
_KEPT: Final = (
    "PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "TZ", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE",
)  # fmt: skip
_ALARMING: Final = frozenset(
    {Topic.RUN_FAILED, Topic.RUN_MISSED, Topic.SLA_MISSED, Topic.MONITOR_DOWN, Topic.LEADER_ABSENT}
)


class AppriseTarget(Target):
    """One address of a channel."""

    def __init__(self, channel: str, url: str, route: Route) -> None:
        self._channel = channel
        self._url = url
        self._route = route

    @property
    def name(self) -> str:
        return f"{self._channel}#{digest(self._url)}"

    @property
    def route(self) -> Route:
        return self._route

    def deliver(self, delivery: Delivery) -> str:
        answer = self._ask(delivery)
        if not answer["known"]:
            raise DeliveryRefused(f"Apprise does not understand the address of channel {self._channel}; correct it")
        if not answer["sent"]:
            raise DeliveryFailed(answer["text"] or "Apprise could not send it")
        return "sent"

    def _ask(self, delivery: Delivery) -> dict[str, Any]:
        body = json.loads(delivery.body)
        title, *lines = lines_of(body)
        question = {
            "url": self._url,
            "title": f"[Itinerary] {title}",
            "body": "\n".join(lines).strip() or title,
            "kind": _kind(delivery.topic, body),
        }
        command = [sys.executable, "-P", "-m", "scheduler_service.notify.apprise_child"]
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        try:
            ended = subprocess.run(
                command, input=json.dumps(question).encode(), capture_output=True, env=environment, timeout=LONGEST,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as exc:
            raise DeliveryFailed("Apprise did not end in time") from exc
        if ended.returncode:  # its last words may hold the address
            raise DeliveryFailed(f"the process that runs Apprise ended with status {ended.returncode}")
        answer: dict[str, Any] = json.loads(ended.stdout)
        return answer


def _kind(topic: Topic, body: Any) -> str:
    """The severity, by which many services choose a colour."""
    items = body["data"]["items"]
    if topic is Topic.TEST:
        return "info"
    if topic is Topic.MONITOR_UP or (items and all(item.get("over") for item in items)):
        return "success"
    return "failure" if topic in _ALARMING else "warning"
