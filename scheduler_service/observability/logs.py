"""Structured logs: one line per event, for people or as JSON, from our own code and from every library.

Promises that no line break, terminal escape or bidirectional mark of foreign text reaches a line unescaped. For people
a traceback follows in indented lines, which pass for no event. No password in an address and no value named like a
secret is written. Owns nothing else of the process.
"""

import logging
import re
import sys
import threading
from collections.abc import Mapping, MutableMapping
from types import TracebackType
from typing import Any, Final, Literal, TextIO

import structlog
from structlog.typing import Processor

from scheduler_service.observability.repeated_events import Seldom
from scheduler_service.runtime.addresses import shown_url

LogFormat = Literal["auto", "console", "json"]

_SECRET_NAME: Final = re.compile(r"password|passwd|secret|token$|authorization|api_key|cookie", re.IGNORECASE)
_QUIET: Final = ("uvicorn.access", "httpx2", "httpcore2", "alembic.runtime.migration", "celery.app.trace")
_INDENT: Final = "    "
_COLOURS: Final = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "31"}


def configure_logs(log_format: LogFormat = "auto", level: str = "info", stream: TextIO | None = None) -> None:
    """Send every event of this process to `stream` (stderr). `auto` means readable text on a terminal, else JSON."""
    out = stream or sys.stderr
    for_people = log_format == "console" or (log_format == "auto" and out.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redacted,
    ]
    handler = logging.StreamHandler(out)
    last: Processor = _console_line(out.isatty()) if for_people else structlog.processors.JSONRenderer(default=str)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            Unrepeated(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


class Unrepeated:
    """Drops an event with an `error` that says word for word what one of the last ten seconds said.

    While a database or Redis is away several threads try on, some four times a second. The next event that passes has
    the count of what it stands for.
    """

    def __init__(self, seldom: Seldom | None = None) -> None:
        self._seldom = seldom or Seldom()

    def __call__(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        if "error" not in event:
            return event
        count = self._seldom.count(repr({key: str(value) for key, value in event.items() if key != "timestamp"}))
        if not count:
            raise structlog.DropEvent
        return event if count == 1 else {**event, "repeated": count}


def log_crashes() -> None:
    """Log what ends this process or one of its threads as one event, in place of Python's own report of it.

    That one would be no event in JSON, and would show passwords of addresses.
    """
    sys.excepthook = _crashed
    threading.excepthook = _thread_crashed


def _crashed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    structlog.get_logger(__name__).critical("crashed", exc_info=(kind, error, trace))


def _thread_crashed(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is None or isinstance(args.exc_value, SystemExit):
        return
    name = None if args.thread is None else args.thread.name
    about = (args.exc_type, args.exc_value, args.exc_traceback)
    structlog.get_logger(__name__).critical("thread crashed", thread=name, exc_info=about)


def escaped(text: str) -> str:
    """The text with every unprintable character escaped, so that it is safe in one line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _redacted(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    return {key: "***" if _SECRET_NAME.search(key) else _without_passwords(value) for key, value in event.items()}


def _without_passwords(value: Any) -> Any:
    return shown_url(value) if isinstance(value, str) and ("://" in value or "pass" in value) else value


def _console_line(coloured: bool) -> Processor:
    def render(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
        level = str(event.pop("level", "info"))
        shown = f"{level:7}"
        if coloured:
            shown = f"\x1b[{_COLOURS.get(level, '0')}m{shown}\x1b[0m"
        trace = str(event.pop("exception", "")).splitlines()
        head = f"{event.pop('timestamp', '')} {shown} {escaped(str(event.pop('event', '')).rstrip())}"
        line = " ".join([head, *(f"{escaped(key)}={_shown(value)}" for key, value in event.items())])
        return "\n".join([line, *(_INDENT + escaped(below) for below in trace)])

    return render


def _shown(value: Any) -> str:
    text = escaped(value if isinstance(value, str) else str(value))
    return repr(text).replace("\\\\", "\\") if not text or " " in text or "=" in text else text
