"""A failed run whose arguments hold secrets: no mail, webhook, page, answer or monitor shows one."""

import base64
import urllib.request
from email import message_from_bytes
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.support.processes import PATIENCE, free_port, wait_until
from tests.support.running import Running
from tests.support.webhook_receiver import SECRET, WebhookReceiver

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
KEY, PASSWORD = "key-of-the-tests-own", "password-of-the-test"
PAGES = (
    "", "failures", "failures?within=1h", "jobs", "jobs/spent", "jobs/spent/edit", "runs", "runs/{run}",
    "workers", "audit",
    "load", "metrics", "api/v1/runs", "api/v1/runs/{run}", "api/v1/runs/{run}/explain",
    "api/v1/jobs", "api/v1/jobs/spent",
    "api/v1/audit",
)  # fmt: skip


class Mailbox:
    """What a real SMTP server was handed."""

    def __init__(self) -> None:
        self.mails: list[str] = []

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        payload = message_from_bytes(envelope.original_content or b"").get_payload(decode=True)
        assert isinstance(payload, bytes)
        self.mails.append(f"{envelope.original_content!r}\n{payload.decode()}")
        return "250 taken"


def read(url: str, password: str | None = None) -> str:
    request = urllib.request.Request(url)
    if password is not None:
        request.add_header("Authorization", "Basic " + base64.b64encode(f"itinerary:{password}".encode()).decode())
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return str(answer.read().decode())


def test_nothing_that_is_shown_or_sent_of_a_failure_holds_a_secret_argument(tmp_path: Path) -> None:
    mailbox, smtp_port = Mailbox(), free_port()
    smtp = Controller(mailbox, hostname="127.0.0.1", port=smtp_port)
    smtp.start()
    told = {
        "ITINERARY_NOTIFY_ALLOW_PRIVATE": "true", "ITINERARY_NOTIFY_SECRET": SECRET,
        "ITINERARY_NOTIFY_EMAIL_TO": "us@example.com", "ITINERARY_NOTIFY_EMAIL_FROM": "it@example.com",
        "ITINERARY_SMTP_URL": f"smtp://127.0.0.1:{smtp_port}",
        "ITINERARY_SECRET_ENV_NAMES": "API_KEY", "API_KEY": KEY,
    }  # fmt: skip
    message = {"why": "it failed", "db_password": PASSWORD, "key": {"$env": "API_KEY"}}
    with WebhookReceiver() as hook, Running(tmp_path / "data", ITINERARY_NOTIFY_WEBHOOKS=hook.url, **told) as up:
        up.wait_for("flower")
        flower_password = (up.data_dir / "flower.password").read_text().strip()
        workers = f"{up.written['flower_url']}/workers?json=1"
        wait_until(lambda: "heartbeats" in read(workers, flower_password), what=lambda: up.output)
        with up.client() as client:
            client.create_job(
                {"job_id": "spent", "task": "itinerary.fail", "kwargs": {"message": message},
                 "schedule": {"kind": "hourly", "minute": 0}}
            )  # fmt: skip
            run_id = client.trigger("spent")["run_id"]
            assert client.wait(run_id, timeout=PATIENCE)["state"] == "failed"
        wait_until(lambda: hook.of_type("run.failed") and mailbox.mails, what=lambda: up.output)
        api_url, flower_url = up.written["api_url"], up.written["flower_url"]
        shown = {page: read(f"{api_url}/{page.format(run=run_id)}") for page in PAGES}
        wait_until(lambda: "FAILURE" in read(f"{flower_url}/api/tasks", flower_password), what=lambda: up.output)
        shown |= {page: read(f"{flower_url}/{page}", flower_password) for page in ("tasks", "api/tasks")}
        shown |= {"mail": "\n".join(mailbox.mails), "hook": "\n".join(post.raw.decode() for post in hook.posts)}
        shown["console"] = up.output
        assert up.stop() == 0
    smtp.stop()
    assert "itinerary.fail" in shown["api/tasks"]
    assert "it failed" in shown["failures"]
    assert "it failed" in shown["mail"]
    assert "it failed" in shown["hook"]
    for where, text in shown.items():
        assert KEY not in text, where
        assert PASSWORD not in text, where
    kept = [path for path in (tmp_path / "data").rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert kept == []
