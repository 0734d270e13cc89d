"""Webhooks and mail against real servers on loopback: what they are sent, and what their answers mean."""

import base64
import json
import re
import socket
import ssl
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Literal

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from itinerary.protocol.instants import SECOND, parse_instant
from scheduler_service.config.notify import SmtpServer, read_smtp_url, signing_key
from scheduler_service.core.notifications.notices import test_message as a_test_message
from scheduler_service.core.notifications.topics import Topic
from scheduler_service.notify import mail, webhook
from scheduler_service.notify.mail import Mail, mail_of
from scheduler_service.notify.webhook import Webhook, signature
from scheduler_service.ports.notices import Delivery, DeliveryFailed, DeliveryRefused
from tests.support.dead_hosts import dead_hosts, resolved_to, seconds_given
from tests.support.processes import MANUAL, free_port
from tests.support.webhook_receiver import SECRET, WebhookReceiver, is_signed

NOW = parse_instant("2026-11-28T02:00:00Z")


def delivery(**body: Any) -> Delivery:
    message = a_test_message(NOW, "m-1")
    return Delivery("m-1", "a", Topic.TEST, json.dumps({**message.body, **body}), NOW, 1)


def hook(receiver: WebhookReceiver, *, private: bool = True) -> Webhook:
    return Webhook(receiver.url, signing_key(SECRET), private=private, clock=lambda: NOW)


def test_a_webhook_is_one_signed_post() -> None:
    with WebhookReceiver() as receiver:
        assert hook(receiver).deliver(delivery()) == "answered 200"
    (post,) = receiver.posts
    assert (post.path, post.headers["content-type"]) == ("/hook", "application/json")
    assert (post.headers["webhook-id"], post.headers["webhook-timestamp"]) == ("m-1", str(NOW // SECOND))
    assert is_signed(post)
    assert not is_signed(post, "whsec_" + base64.b64encode(b"x" * 32).decode())
    assert post.body["type"] == "notify.test"


def test_the_signature_is_that_of_the_conventions_published_example() -> None:
    key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_openssl_agrees_with_the_signature() -> None:
    made = subprocess.run(
        ["openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{signing_key(SECRET).hex()}", "-binary"],
        input=b"m-1.1700000000.{}", capture_output=True, check=True,
    )  # fmt: skip
    assert signature(signing_key(SECRET), "m-1", 1_700_000_000, "{}") == f"v1,{base64.b64encode(made.stdout).decode()}"


def test_the_manuals_snippet_tells_right_from_wrong() -> None:
    manual = (MANUAL / "notifications.md").read_text("utf-8")
    (snippet,) = re.findall(r"```python\n((?:(?!```).)*?def verified.*?)```", manual, re.DOTALL)
    names: dict[str, Any] = {}
    exec(snippet, names)  # our own manual
    with WebhookReceiver() as receiver:
        hook(receiver).deliver(delivery())
    (post,) = receiver.posts
    now = NOW / SECOND
    assert names["verified"](post.headers, post.raw, SECRET, now) == post.body
    for headers, raw, at in (
        (post.headers, post.raw + b" ", now),
        ({**post.headers, "webhook-id": "m-2"}, post.raw, now),
        (post.headers, post.raw, now + 600),
    ):
        with pytest.raises(ValueError):
            names["verified"](headers, raw, SECRET, at)


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (500, DeliveryFailed, "answered 500"),
        (404, DeliveryFailed, "answered 404"),
        (410, DeliveryRefused, "answered 410"),
        ("http://127.0.0.1:1/", DeliveryFailed, "answered 307: redirects are not followed"),
    ],
)
def test_an_answer_that_is_no_yes_fails_and_gone_is_for_good(
    answer: int | str, error: type[Exception], said: str
) -> None:
    with WebhookReceiver(answer) as receiver, pytest.raises(error, match=said):
        hook(receiver).deliver(delivery())
    assert len(receiver.posts) == 1


def test_a_receiver_that_repeats_the_address_gives_none_of_it_away() -> None:
    for path in ("/services/T0secret/B0secret?key=a%20secret", "/a%20secret/hook"):
        with WebhookReceiver(404) as receiver:
            target = Webhook(f"{receiver.address}{path}", signing_key(SECRET), private=True, clock=lambda: NOW)
            with pytest.raises(DeliveryFailed, match=r"answered 404: Cannot POST /") as failed:
                target.deliver(delivery())
        assert receiver.posts[0].path == path
        assert "secret" not in str(failed.value)


def test_a_receiver_that_hangs_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT", 0.3)
    with WebhookReceiver("hang") as receiver, pytest.raises(DeliveryFailed, match="in time"):
        hook(receiver).deliver(delivery())


def test_a_receiver_that_is_away_fails() -> None:
    with WebhookReceiver() as receiver:
        gone = hook(receiver)
    with pytest.raises(DeliveryFailed, match="ConnectionRefused"):
        gone.deliver(delivery())


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "rebound.example"])
def test_an_address_that_is_not_public_is_never_connected_to(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with WebhookReceiver() as receiver:
        port = int(receiver.url.rpartition(":")[2].partition("/")[0])
        if name == "rebound.example":
            addresses = [(socket.AF_INET, 1, 6, "", (text, port)) for text in ("1.1.1.1", "127.0.0.1")]
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
        url = f"http://{name}:{port}/secret-path"
        target = Webhook(url, signing_key(SECRET), private=False, clock=lambda: NOW)
        with pytest.raises(DeliveryRefused, match="ITINERARY_NOTIFY_ALLOW_PRIVATE=true allows it") as refused:
            target.deliver(delivery())
    assert receiver.posts == []
    assert "secret" not in str(refused.value) + target.name


class Inbox:
    """What a real SMTP server was handed; refuses recipients that begin with `no`."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.greeted_by: list[str | None] = []

    async def handle_RCPT(self, server: SMTP, session: Session, envelope: Envelope, address: str, options: Any) -> str:
        self.greeted_by.append(session.host_name)
        if address.startswith("no"):
            return "550 no such mailbox"
        if address.startswith("later"):
            return "450 not now"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        self.envelopes.append(envelope)
        return "250 taken"


@pytest.fixture
def smtp() -> Iterator[tuple[SmtpServer, Inbox]]:
    """A real SMTP server."""
    inbox, port = Inbox(), free_port()
    controller = Controller(inbox, hostname="127.0.0.1", port=port)
    controller.start()
    yield read_smtp_url(f"smtp://127.0.0.1:{port}"), inbox
    controller.stop()


def test_a_mail_reaches_all_addresses_with_the_messages_id(smtp: tuple[SmtpServer, Inbox]) -> None:
    server, inbox = smtp
    assert Mail(server, "it@example.org", ["ops@example.org", "me@example.org"]).deliver(delivery()) == "taken"
    (envelope,) = inbox.envelopes
    assert (envelope.mail_from, envelope.rcpt_tos) == ("it@example.org", ["ops@example.org", "me@example.org"])
    text = envelope.content.decode() if isinstance(envelope.content, bytes) else str(envelope.content)
    assert "Subject: [Itinerary] a test: notifications arrive" in text
    assert "Message-ID: <m-1@itinerary.invalid>" in text
    assert "X-Itinerary-Event: notify.test" in text


def test_addresses_that_are_refused_are_named_and_do_not_keep_the_mail_from_others(
    smtp: tuple[SmtpServer, Inbox],
) -> None:
    server, inbox = smtp
    said = Mail(server, "it@example.org", ["ops@example.org", "nobody@example.org"]).deliver(delivery())
    assert said == "taken, but nobody@example.org: 550 no such mailbox"
    assert len(inbox.envelopes) == 1


@pytest.mark.parametrize(("to", "error"), [("nobody@x.org", DeliveryRefused), ("later@x.org", DeliveryFailed)])
def test_a_mail_that_nobody_gets_is_given_up_only_where_that_is_for_good(
    smtp: tuple[SmtpServer, Inbox], to: str, error: type[Exception]
) -> None:
    server, _ = smtp
    with pytest.raises(error, match=to):
        Mail(server, "it@example.org", [to]).deliver(delivery())


def test_a_server_that_is_away_or_knows_no_login_or_tls_fails_without_its_password(
    smtp: tuple[SmtpServer, Inbox],
) -> None:
    server, _ = smtp
    away = read_smtp_url("smtps://me:hunter2@127.0.0.1:1")
    silent = SmtpServer("smtp+starttls", server.host, server.port, "me", "hunter2")
    for one in (away, silent):
        with pytest.raises(DeliveryFailed) as failed:
            Mail(one, "it@example.org", ["ops@example.org"]).deliver(delivery())
        assert "hunter2" not in str(failed.value) + repr(one)


def test_a_mail_that_was_taken_is_not_sent_again_because_the_server_hung_up_on_quit(
    smtp: tuple[SmtpServer, Inbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, inbox = smtp

    async def hang_up(of_server: SMTP, *_: Any) -> None:
        assert of_server.transport is not None
        of_server.transport.close()

    monkeypatch.setattr(SMTP, "smtp_QUIT", hang_up)
    assert Mail(server, "it@example.org", ["ops@example.org"]).deliver(delivery()) == "taken"
    assert len(inbox.envelopes) == 1


@pytest.mark.parametrize("security", ["smtp", "smtps"])
@pytest.mark.slow
def test_a_name_with_many_dead_addresses_takes_no_longer_than_a_mail_may(
    monkeypatch: pytest.MonkeyPatch, security: Literal["smtp", "smtps"]
) -> None:
    dead, port = ["127.0.0.2", "127.0.0.3", "127.0.0.4"], free_port()
    monkeypatch.setattr(mail, "LONGEST", 0.3)
    with dead_hosts(dead, port):
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved_to(dead, port))
        target = Mail(SmtpServer(security, "mail.example", port, None, None), "a@b.c", ["d@e.f"])
        with (
            seconds_given(monkeypatch) as given,
            pytest.raises(DeliveryFailed, match=r"^mail\.example: TimeoutError"),
        ):
            target.deliver(delivery())
    assert 0 < sum(given) <= 0.3


@pytest.mark.slow
def test_a_mail_goes_to_the_address_that_answers_whatever_the_resolver_says_of_its_sender(
    smtp: tuple[SmtpServer, Inbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, inbox = smtp
    monkeypatch.setattr(mail, "LONGEST", 6)  # half of it for the dead address
    monkeypatch.setattr(mail, "_OWN_NAME", 0.01)
    asked_by_us: Callable[[], bool] = lambda: threading.current_thread().name == "resolver"  # noqa: E731 - not the server
    monkeypatch.setattr(socket, "getfqdn", lambda: (asked_by_us() and threading.Event().wait(1)) or "late.example")
    with dead_hosts(["127.0.0.2"], server.port):
        both = resolved_to(["127.0.0.2", server.host], server.port)
        resolve: Callable[..., Any] = socket.getaddrinfo
        monkeypatch.setattr(
            socket, "getaddrinfo", lambda host, *a, **k: both if host == "mail.example" else resolve(host, *a, **k)
        )
        Mail(SmtpServer("smtp", "mail.example", server.port, None, None), "a@b.c", ["d@e.f"]).deliver(delivery())
    assert inbox.greeted_by == ["[127.0.0.1]"]
    assert len(inbox.envelopes) == 1


@pytest.mark.parametrize(
    ("security", "greeting"),
    [("smtp", b""), ("smtp", b"220 here\r\n"), ("smtps", b"\x16\x03\x03\x40\x00")],
    ids=["at once", "after the greeting", "in the TLS handshake"],
)
def test_a_server_that_drips_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, security: Literal["smtp", "smtps"], greeting: bytes
) -> None:
    monkeypatch.setattr(mail, "LONGEST", 0.3)
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            peer, _ = listening.accept()
            with peer, suppress(OSError):
                peer.sendall(greeting)
                while not over.wait(0.05):
                    peer.sendall(b".")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            server = SmtpServer(security, *listening.getsockname(), None, None)
            with pytest.raises(DeliveryFailed, match="in time"):
                Mail(server, "it@example.org", ["ops@example.org"]).deliver(delivery())
        finally:
            over.set()
            thread.join(60)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of `localhost` with its key in one file, signed by itself."""
    file = tmp_path_factory.mktemp("tls") / "localhost.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(file), "-out", f"{file}.crt"]
    subprocess.run(["openssl", *words.split(), *names], check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + Path(f"{file}.crt").read_bytes())
    return file


@pytest.mark.parametrize("security", ["smtps", "smtp+starttls"])
def test_a_login_is_made_by_checked_tls(
    monkeypatch: pytest.MonkeyPatch, certificate: Path, security: Literal["smtps", "smtp+starttls"]
) -> None:
    def authenticate(server: Any, session: Any, envelope: Any, mechanism: Any, login: Any) -> AuthResult:
        return AuthResult(success=login.password == b"right", handled=False)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    tls = {"ssl_context": context} if security == "smtps" else {"tls_context": context, "require_starttls": True}
    port = free_port()
    controller = Controller(
        Inbox(), hostname="127.0.0.1", port=port, authenticator=authenticate, auth_required=True,
        auth_require_tls=security != "smtps", **tls,
    )  # fmt: skip

    def deliver(password: str) -> str:
        return Mail(SmtpServer(security, "localhost", port, "me", password), "a@b.c", ["d@e.f"]).deliver(delivery())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the server, which does not know of TLS around it
        controller.start()
        try:
            with pytest.raises(DeliveryFailed, match="CERTIFICATE_VERIFY_FAILED"):
                deliver("right")
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            assert deliver("right") == "taken"
            with pytest.raises(DeliveryFailed, match="answered 535"):
                deliver("wrong")
        finally:
            controller.stop()


def test_a_mail_tells_each_subject_in_lines_and_nothing_breaks_out_of_them() -> None:
    items = [
        {
            "job_id": "billing.close", "task": "t", "run_id": "r", "count": 3, "reason": "a\r\nBcc: x@y",
            "error": {"type": "ValueError", "message": "no\n.\nQUIT"}, "first_at": "A", "last_at": "B",
        },
        {"holder": "h", "term": 7, "confirmed_at": "C", "count": 1, "first_at": "D", "last_at": "D"},
    ]  # fmt: skip
    mail: EmailMessage = mail_of(delivery(data={"items": items, "more": 2, "count": 6}), "a@b.c", ["d@e.f"])
    assert mail.get_content().splitlines() == [
        "A test: notifications arrive.",
        "",
        "* billing.close",
        "    3 times from A to B",
        "    run r",
        "    because a Bcc: x@y",
        "    ValueError: no . QUIT",
        "",
        "* notify.test",
        "    at D",
        "    term 7 of h, last confirmed C",
        "",
        "and 2 more",
    ]
    assert mail["Bcc"] is None
