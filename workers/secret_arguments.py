"""Arguments that name a secret, `{"$env": "NAME"}` and `{"$secret": "NAME"}`: their values, in the worker alone.

Owns the allow-list (ITINERARY_SECRET_ENV_NAMES, ITINERARY_SECRET_FOLDER) and what is known of values in this process.
Promises that a stored run keeps the reference, that a reference nobody allowed fails the run by name, and that a known
value leaves in no report. Never reads a variable or file that is not allowed.
"""

import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

ENV_NAMES: Final = "ITINERARY_SECRET_ENV_NAMES"
FOLDER: Final = "ITINERARY_SECRET_FOLDER"
HIDDEN: Final = "***"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_MARKS: Final = ("$env", "$secret")
_SHORTEST: Final = 4
_LONGEST: Final = 64 * 1024


class SecretRefused(Exception):
    """An argument names a secret that this worker may not give or does not have; whoever runs the worker mends it."""


def holds_reference(value: Any) -> bool:
    """Whether a reference stands anywhere in a task's arguments."""
    if isinstance(value, dict):
        return _is_reference(value) or any(map(holds_reference, value.values()))
    return isinstance(value, list | tuple) and any(map(holds_reference, value))


def resolve(args: list[Any], kwargs: dict[str, Any], environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Put the values in the places of the references, in these objects; the reference of each value.

    SecretRefused where one is not allowed or missing; then nothing was changed.
    """
    known: dict[str, dict[str, str]] = {}

    def put(reference: dict[str, str]) -> str:
        value = _value(reference, environ)
        known[value] = reference
        return value

    new_args, new_kwargs = _mapped(args, put), {name: _mapped(value, put) for name, value in kwargs.items()}
    args[:] = new_args
    kwargs.update(new_kwargs)
    return known


def values_in(body: Any, args: Any, kwargs: Any, environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The values that a message's arguments name, for whoever only has to hide them; few messages name any."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    if isinstance(text, str) and not any(mark in text for mark in _MARKS):
        return {}
    known: dict[str, dict[str, str]] = {}

    def note(reference: dict[str, str]) -> str:
        with suppress(SecretRefused):  # the run fails by it, and shows no value
            known[_value(reference, environ)] = reference
        return ""

    _mapped([args, kwargs], note)
    return known


def concealed(value: Any, known: Mapping[str, dict[str, str]]) -> Any:
    """The value with each reference in place of what it stood for, and no known value inside a text."""
    if isinstance(value, str):
        if value in known:
            return dict(known[value])
        return without(value, known)
    if isinstance(value, dict):
        return {without(str(name), known): concealed(inner, known) for name, inner in value.items()}
    return [concealed(inner, known) for inner in value] if isinstance(value, list | tuple) else value


def concealed_body(body: Mapping[str, Any], known: Mapping[str, dict[str, str]]) -> dict[str, Any]:
    """A report's body; the texts of an error stay texts."""
    hidden = {name: concealed(value, known) for name, value in body.items() if name != "error"}
    return hidden | ({"error": _hidden_error(body["error"], known)} if "error" in body else {})


def _hidden_error(error: Any, known: Mapping[str, object]) -> Any:
    return {name: without(text, known) for name, text in error.items()} if isinstance(error, dict) else error


def hide_in_logs(known: Mapping[str, object]) -> None:
    """From now on, keep these values out of what Celery logs of tasks in this process."""
    _in_logs.known.update(known)
    logging.getLogger("celery.app.trace").addFilter(_in_logs)


class _Hiding(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, object] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Hide, and pass on."""
        record.msg, record.args = without(record.getMessage(), self.known), ()
        if record.exc_info:
            record.exc_text = without(logging.Formatter().formatException(record.exc_info), self.known)
        return True


_in_logs: Final = _Hiding()


def without(text: str, known: Mapping[str, object]) -> str:
    """The text with the known values hidden, longest first; very short ones would hide half of any text."""
    for value in sorted(known, key=len, reverse=True):
        if len(value) >= _SHORTEST:
            text = text.replace(value, HIDDEN).replace(repr(value)[1:-1], HIDDEN)
    return text


def _is_reference(value: dict[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)) in _MARKS


def _mapped(value: Any, put: Callable[[dict[str, str]], str]) -> Any:
    if isinstance(value, dict):
        return put(value) if _is_reference(value) else {name: _mapped(inner, put) for name, inner in value.items()}
    return [_mapped(inner, put) for inner in value] if isinstance(value, list | tuple) else value


def _value(reference: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    ((kind, name),) = reference.items()
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SecretRefused(f"{kind} must name a secret by letters, digits, `_`, `-` and `.`")
    return _of_environment(name, environ) if kind == "$env" else _of_folder(name, environ)


def _of_environment(name: str, environ: Mapping[str, str]) -> str:
    allowed = {part.strip() for part in environ.get(ENV_NAMES, "").split(",")}
    if name not in allowed:
        raise SecretRefused(f"$env {name} is not allowed: add it to {ENV_NAMES} of this worker")
    if not environ.get(name):
        raise SecretRefused(f"$env {name} is not set for this worker")
    return environ[name]


def _of_folder(name: str, environ: Mapping[str, str]) -> str:
    folder = environ.get(FOLDER)
    if not folder:
        raise SecretRefused(f"$secret {name} is not allowed: set {FOLDER} of this worker to a folder of secrets")
    try:
        with (Path(folder) / name).open(encoding="utf-8") as file:
            text = file.read(_LONGEST + 1).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as exc:
        raise SecretRefused(f"$secret {name} cannot be read by this worker: {type(exc).__name__}") from None
    if not text or len(text) > _LONGEST:
        raise SecretRefused(f"$secret {name} is empty or longer than {_LONGEST} characters")
    return text
