"""The process that sends one message through Apprise: a question on stdin, the answer on stdout, both JSON.

The library and its plugins take tens of megabytes and half a second to load, and a plugin may hang or leak. None of it
happens in a process of ours. Promises that the answer holds no part of the address.
"""

import json
import logging
import resource
import sys
from typing import Any, Final

import apprise

from scheduler_service.notify.masking import masked

_CPU_SECONDS: Final = 10


class _Warnings(logging.Handler):
    """Keeps what the library reports."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Send, and return whether it arrived, whether the address can be used at all, and what the library reported."""
    warnings = _Warnings()
    apprise.logger.addHandler(warnings)
    apprise.logger.propagate = False
    sender = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Itinerary", async_mode=False, secure_logging=True))
    known = bool(sender.add(asked["url"]))
    sent = known and bool(sender.notify(title=asked["title"], body=asked["body"], notify_type=asked["kind"]))
    text = " ".join("; ".join(warnings.texts).split())
    return {"sent": sent, "known": known, "text": masked(text, asked["url"], host=True)}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS + 1))
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
