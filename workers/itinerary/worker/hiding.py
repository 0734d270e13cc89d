"""Secret values in texts: replaced by `***` in a worker's reports, logs, traces and events for Celery's monitors.

Owns the spellings of a value in a text, and the filter of Celery's task log. Promises that no known value of four
characters or more stays in a text that passes here, if it is whole. Never changes arguments or stored values.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import quote, quote_plus

from itinerary.protocol.redaction import MASK, is_hidden, use_keys

REDACT_VARIABLE: Final = "ITINERARY_REDACT_KEYS"
HIDDEN: Final = "***"
Hide = Callable[[str], str]
AS_IT_IS: Final[Hide] = str
_SHORTEST: Final = 4
_SHORTEST_LINE: Final = 8


def learn_hidden_names(environ: Mapping[str, str]) -> None:
    """Hide the names that the API and the leader hide: they read the same setting."""
    if environ.get(REDACT_VARIABLE):
        use_keys(environ[REDACT_VARIABLE].split(","))


class Hiding:
    """A replacement of these values in a text, the longest first; very short ones would hide half of any text."""

    def __init__(self, values: Iterable[str]) -> None:
        found = {text for value in values if len(value) >= _SHORTEST and value != MASK for text in _spellings(value)}
        self._texts = sorted(found, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without the values."""
        for value in self._texts:
            text = text.replace(value, HIDDEN)
        return text


def _spellings(value: str) -> Iterator[str]:
    """The value as errors show it: plain, inside a repr, JSON or a URL, and line by line in indented text."""
    yield from (value, repr(value)[1:-1], repr(f'"{value}')[2:-1], json.dumps(value)[1:-1])
    with suppress(UnicodeEncodeError):  # no URL contains half of a surrogate pair
        yield from (quote(value), quote(value, safe=""), quote_plus(value))
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= _SHORTEST_LINE)


def values_by_name(value: Any) -> Iterator[str]:
    """The texts under names such as `password`, at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner) if is_hidden(str(name)) else values_by_name(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from values_by_name(inner)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


_of_this_task: Final[ContextVar[Hide]] = ContextVar("itinerary_hiding", default=AS_IT_IS)


def hide_in_logs(of_task: Hide, known: Mapping[str, object]) -> None:
    """Hide values in Celery's task log: the task's until it ends, and those of references from now on."""
    _of_this_task.set(of_task)
    _in_logs.learn(known)
    logging.getLogger("celery.app.trace").addFilter(_in_logs)


def task_ended() -> None:
    """Forget this thread's secrets: the next task has others, or none."""
    _of_this_task.set(AS_IT_IS)


class _LogFilter(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._known: set[str] = set()
        self._hide: Hide = AS_IT_IS

    def learn(self, known: Mapping[str, object]) -> None:
        """Hide these values too."""
        if not known.keys() <= self._known:
            self._known |= known.keys()
            self._hide = Hiding(self._known)

    def filter(self, record: logging.LogRecord) -> bool:
        """Hide, and pass on. A hidden traceback becomes text: handlers would print the exception's own."""
        record.msg, record.args = self._without(record.getMessage()), ()
        if record.exc_info:
            trace = logging.Formatter().formatException(record.exc_info)
            shown = self._without(trace)
            if shown != trace:
                record.msg, record.exc_info, record.exc_text = f"{record.msg}\n{shown}", None, None
        extra = getattr(record, "data", None)  # Celery's data for handlers beside the message
        if isinstance(extra, dict):
            record.data = {name: self._without(text) if isinstance(text, str) else text for name, text in extra.items()}
        return True

    def _without(self, text: str) -> str:
        return _of_this_task.get()(self._hide(text))


_in_logs: Final = _LogFilter()
