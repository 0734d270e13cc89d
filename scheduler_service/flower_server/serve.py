"""The process of `itinerary flower`: Flower's own application with the guard before every route.

Promises: it never starts without a password and never sets FLOWER_UNAUTHENTICATED_API. A request that the guard refuses
never reaches a handler of Flower. FLOWER_* variables apply, except those about logins.
"""

import html
import logging
import os
import secrets
import signal
import sys
import time
from abc import ABC, abstractmethod
from base64 import b64encode
from importlib import import_module
from typing import Any, Final

from celery import Celery
from flower import command  # type: ignore[import-untyped]
from flower.app import Flower  # type: ignore[import-untyped]
from flower.options import options  # type: ignore[import-untyped]
from flower.urls import settings as flower_settings  # type: ignore[import-untyped]
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.log import enable_pretty_logging
from tornado.web import OutputTransform, RedirectHandler, RequestHandler

from itinerary.protocol.errors import BadValue, ItineraryError
from scheduler_service.config.settings import Settings
from scheduler_service.flower_server.guard import COOKIE, USER, Asked, Guard, LoggedIn, Refused, SentToDashboard
from scheduler_service.flower_server.tickets import LIFETIME, sealed, session_of

# By name: no module of ours imports the worker's. Celery's own loader would search the working directory first.
_APP: Final = "itinerary.worker.celery_app"
_OURS: Final = ("UNAUTHENTICATED_API", "BASIC_AUTH", "AUTH", "AUTH_PROVIDER", "CONF", "DEBUG", "ADDRESS", "PORT")
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
}
_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<title>Flower</title>{head}<p>{sentence}</p></html>
"""
_log = logging.getLogger("itinerary.flower")


def serve_flower(settings: Settings) -> None:
    """Run Flower until a signal; BadValue if no password is set. Call it from the main thread."""
    if not settings.flower_password:
        advice = "set it: Flower does not start without a password (`itinerary up` creates one)"
        raise BadValue("ITINERARY_FLOWER_PASSWORD", None, advice)
    os.environ["ITINERARY_BROKER_URL"] = settings.broker_url
    os.environ["ITINERARY_BROKER_KEY_PREFIX"] = settings.broker_key_prefix or ""
    guarded = guarded_flower(settings, settings.flower_password, import_module(_APP).app)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        guarded.start_http_server()
    except OSError as exc:
        raise ItineraryError(f"Flower cannot listen on port {settings.flower_port}: {exc.strerror}") from exc
    try:
        guarded.start()
    except (KeyboardInterrupt, SystemExit):
        guarded.stop()


def guarded_flower(settings: Settings, password: str, app: Celery) -> "GuardedFlower":
    """Build Flower over this app, with its options set; it does not listen yet."""
    options.max_tasks = settings.flower_max_tasks
    for name in _OURS:
        os.environ.pop(f"FLOWER_{name}", None)
    command.apply_env_options()
    options.address, options.port = settings.flower_host, settings.flower_port
    options.logging = "warning"
    enable_pretty_logging()
    command.extract_settings()
    command.setup_logging()
    guard = Guard(
        password, settings.flower_host, settings.flower_url, since=time.time_ns() // 1000, dashboard=settings.public_url
    )
    return GuardedFlower(guard, capp=app, options=options, **flower_settings)


class SafeHeaders(OutputTransform):
    """Adds the headers of every answer, Flower's own included; none lets another site read it."""

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """Add the headers; Tornado's hook on the first part of an answer."""
        for name in [name for name in headers if name.lower().startswith("access-control-")]:
            del headers[name]
        for name, value in _HEADERS.items():
            headers.setdefault(name, value)
        headers.setdefault("Cache-Control", "no-store")
        return status_code, headers, chunk


class GuardedFlower(Flower):  # type: ignore[misc]  # Flower has no types
    """Flower's application; Tornado finds every route through `find_handler` only."""

    def __init__(self, guard: Guard, **parts: Any) -> None:
        self._guard = guard
        # Flower needs a login of its own, unknown outside: the guard's verdict replaces it.
        inner = f"{USER}:{secrets.token_hex(32)}"
        parts["options"].basic_auth = [inner]
        self._inner = f"Basic {b64encode(inner.encode()).decode('ascii')}"
        self._prefix = "/" + (parts["options"].url_prefix or "").strip("/")
        super().__init__(transforms=[SafeHeaders], **parts)

    def find_handler(self, request: HTTPServerRequest, **more: Any) -> Any:
        """Return the handler of an admitted request, or one that answers the refusal."""
        match self._guard.judge(self._asked(request), time.time_ns() // 1000):
            case Refused(failed_login=failed) as refused:
                if failed:
                    _log.warning("login refused: status=%d from=%s", refused.status, request.remote_ip)
                return self.get_handler_delegate(request, _Refusal, {"refused": refused})
            case LoggedIn(ticket):
                now = time.time_ns() // 1000
                session = session_of(ticket, now, renewed=self._guard.dashboard is not None)
                prefix = self._prefix.rstrip("/")
                given = {
                    "text": sealed(session, self._guard.password, "session"),
                    "cookie_path": self._prefix,
                    "go_to": prefix + ticket.path,
                    "secure": (self._guard.url or "").startswith("https:"),
                }
                return self.get_handler_delegate(request, _Login, given)
            case SentToDashboard(url):
                return self.get_handler_delegate(request, RedirectHandler, {"url": url, "permanent": False})
            case _:
                request.headers["Authorization"] = self._inner
                return super().find_handler(request, **more)

    def _asked(self, request: HTTPServerRequest) -> Asked:
        cookie = request.cookies.get(COOKIE)
        prefix = self._prefix.rstrip("/")
        tickets = request.query_arguments.get("ticket", [b""])
        return Asked(
            str(request.method),
            request.path.removeprefix(prefix) if request.path.startswith(prefix + "/") else request.path,
            request.headers,
            session=cookie.value if cookie else "",
            ticket=tickets[-1].decode("utf-8", "replace"),
            sender=str(request.remote_ip),
        )


class _Answer(ABC, RequestHandler):
    """Gives the same answer to every method."""

    def check_xsrf_cookie(self) -> None:
        """Skip the check: the handler changes nothing."""

    @abstractmethod
    def say(self) -> None:
        """Write the answer."""

    def get(self) -> None:
        """Send the answer."""
        self.say()

    head = post = put = patch = delete = options = get


class _Refusal(_Answer):
    def initialize(self, refused: Refused) -> None:
        self._refused = refused

    def say(self) -> None:
        self.set_status(self._refused.status)
        if self._refused.status == 401:
            self.set_header("WWW-Authenticate", 'Basic realm="flower"')
        elif self._refused.status == 405:
            self.set_header("Allow", "GET")
        self.finish(_PAGE.format(head="", sentence=html.escape(self._refused.sentence)))


class _Login(_Answer):
    def initialize(self, text: str, cookie_path: str, go_to: str, secure: bool) -> None:
        self._text, self._cookie_path, self._go_to, self._secure = text, cookie_path, go_to, secure

    def say(self) -> None:
        """Set the cookie and continue by a page: after a redirect from another site it would not be sent."""
        self.set_cookie(
            COOKIE, self._text, path=self._cookie_path, httponly=True, samesite="Strict", secure=self._secure,
            max_age=LIFETIME["session"] // 1_000_000,
        )  # fmt: skip
        self.set_header("Referrer-Policy", "no-referrer")
        address = html.escape(self._go_to, quote=True)
        go_on = f'<meta http-equiv="refresh" content="0;url={address}">'
        self.finish(_PAGE.format(head=go_on, sentence=f'<a href="{address}">Go on to Flower</a>'))
