"""E-mail as a Target: one plain-text message to all addresses through one SMTP server.

Promises that every try of a message has the same Message-ID, and that TLS is checked against the host's name. A server
that sends slowly is cut off at the deadline.
"""

import json
import smtplib
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any, Final

from itinerary.net.bounded import Fuse, addresses_of, connected, within
from itinerary.protocol.instants import to_datetime
from scheduler_service.config.notify import SmtpServer
from scheduler_service.notify.texts import lines_of
from scheduler_service.ports.notices import Delivery, DeliveryFailed, DeliveryRefused, Target

TIMEOUT: Final = 10.0
LONGEST: Final = 20.0
"""The time limit for sending a mail; shorter than a claim, so that no other process sends it meanwhile."""

_OWN_NAME: Final = 2.0
_PERMANENT: Final = 500


class Mail(Target):
    """The mail target: a server, a sender, and the addresses to notify."""

    def __init__(self, server: SmtpServer, sender: str, to: Sequence[str]) -> None:
        self._server = server
        self._sender = sender
        self._to = tuple(to)

    @property
    def name(self) -> str:
        return f"mail by {self._server.host}"

    def deliver(self, delivery: Delivery) -> str:
        """The answer names addresses that the server refused while it accepted others."""
        message = mail_of(delivery, self._sender, self._to)
        try:
            with closing(self._connection()) as smtp:
                refused = smtp.send_message(message, self._sender, self._to)
                with suppress(OSError, smtplib.SMTPException):  # the message was accepted already
                    smtp.quit()
        except smtplib.SMTPRecipientsRefused as exc:
            for_good = all(code >= _PERMANENT for code, _ in exc.recipients.values())
            raise (DeliveryRefused if for_good else DeliveryFailed)(_reasons(exc.recipients)) from exc
        except smtplib.SMTPResponseException as exc:
            raise DeliveryFailed(f"{self._server.host} answered {exc.smtp_code}: {_text(exc.smtp_error)}") from exc
        except (OSError, smtplib.SMTPException) as exc:
            raise DeliveryFailed(f"{self._server.host}: {type(exc).__name__}: {exc}") from exc
        return f"taken, but {_reasons(refused)}" if refused else "taken"

    def _connection(self) -> smtplib.SMTP:
        server, context = self._server, ssl.create_default_context()
        smtp: smtplib.SMTP
        if server.security == "smtps":
            smtp = _BoundedTls(server.host, server.port, _own_name(), timeout=TIMEOUT, context=context)
        else:
            smtp = _Bounded(server.host, server.port, _own_name(), timeout=TIMEOUT)
        try:
            if server.security == "smtp+starttls":
                smtp.starttls(context=context)
            if server.user is not None:
                smtp.login(server.user, server.password or "")
        except BaseException:
            smtp.close()
            raise
        return smtp


def _own_name() -> str:
    """The name for the greeting; smtplib would ask the resolver for it, however long that takes."""
    try:
        name = within(_OWN_NAME, socket.getfqdn)
    except TimeoutError:
        name = ""
    return name if "." in name else "[127.0.0.1]"


class _Bounded(smtplib.SMTP):
    """An SMTP connection with one deadline; smtplib's timeout holds for a single address and a single read."""

    _fuse: Fuse | None = None

    def connect(self, *args: Any, **more: Any) -> tuple[int, bytes]:
        try:
            return super().connect(*args, **more)
        except BaseException as exc:
            self.close()
            self._go_on(exc)
            raise

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        deadline = time.monotonic() + LONGEST
        connection = connected(addresses_of(host, port, deadline), port, deadline)
        connection.settimeout(timeout)
        self._fuse = Fuse(connection, deadline)
        return connection

    def getreply(self) -> tuple[int, bytes]:
        try:
            return super().getreply()
        finally:
            self._go_on(None)

    def close(self) -> None:
        if self._fuse is not None:
            self._fuse.stand_down()
        super().close()

    def _go_on(self, stopped_by: BaseException | None) -> None:
        if self._fuse is not None and self._fuse.blown:
            raise TimeoutError("no answer in time") from stopped_by


class _BoundedTls(smtplib.SMTP_SSL, _Bounded):
    """The same inside TLS."""


def mail_of(delivery: Delivery, sender: str, to: Sequence[str]) -> EmailMessage:
    """The mail message of a delivery."""
    body = json.loads(delivery.body)
    message = EmailMessage()
    message["Subject"] = f"[Itinerary] {body['text']}"
    message["From"], message["To"] = sender, ", ".join(to)
    message["Date"] = format_datetime(to_datetime(delivery.created_at))
    message["Message-ID"] = f"<{delivery.message_id}@itinerary.invalid>"
    message["Auto-Submitted"] = "auto-generated"
    message["X-Itinerary-Event"] = body["type"]
    message.set_content("\n".join(lines_of(body)))
    return message


def _reasons(refused: Mapping[str, tuple[int, bytes]]) -> str:
    return "; ".join(f"{address}: {code} {_text(text)}" for address, (code, text) in refused.items())


def _text(text: bytes | str) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text
