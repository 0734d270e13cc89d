"""Arguments that name a secret, `{"$env": "NAME"}` and `{"$secret": "NAME"}`, and their values, in the worker alone.

Owns the allow-list (ITINERARY_SECRET_ENV_NAMES, ITINERARY_SECRET_FOLDER) and this process's known values. Promises that
a stored run keeps the reference, and that no report contains a known value. A reference without permission fails the
run by name. Never reads a variable or file that is not allowed.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from itinerary.protocol.redaction import is_hidden
from itinerary.worker.hiding import AS_IT_IS, Hide, Hiding, values_by_name

ENV_NAMES: Final = "ITINERARY_SECRET_ENV_NAMES"
FOLDER: Final = "ITINERARY_SECRET_FOLDER"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_MARKS: Final = frozenset({"$env", "$secret"})
_NESTS: Final = (dict, list, tuple)
_LONGEST: Final = 64 * 1024


class SecretRefused(Exception):
    """An argument names a secret that this worker may not use or does not have; its operator can correct that."""


def holds_secret(value: Any) -> bool:
    """Whether a task's arguments contain a reference or a hidden name. Called for every run, hence the plain loops."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in _MARKS or is_hidden(name) or (isinstance(inner, _NESTS) and holds_secret(inner)):
                return True
    elif isinstance(value, list | tuple):
        for inner in value:
            if isinstance(inner, _NESTS) and holds_secret(inner):
                return True
    return False


def resolve(args: list[Any], kwargs: dict[str, Any], environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Replace the references by their values, in these objects; return the reference of each value.

    SecretRefused if one is not allowed or missing; then nothing was changed.
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


def hiding_of(args: Any, kwargs: Any, environ: Mapping[str, str]) -> Hide:
    """Hide the values that a message's arguments name or hold under a hidden name; few messages have any."""
    if not (holds_secret(args) or holds_secret(kwargs)):
        return AS_IT_IS
    known: list[str] = []

    def note(reference: dict[str, str]) -> str:
        with suppress(SecretRefused):  # the run fails with it, and shows no value
            known.append(_value(reference, environ))
        return ""

    _mapped([args, kwargs], note)
    return Hiding([*known, *values_by_name([args, kwargs])])


def concealed(value: Any, known: Mapping[str, dict[str, str]]) -> Any:
    """The value with each secret replaced by its reference, and no known value inside a text."""
    return _concealed(value, known, Hiding(known))


def _concealed(value: Any, known: Mapping[str, dict[str, str]], hide: Hide) -> Any:
    if isinstance(value, str):
        return dict(known[value]) if value in known else hide(value)
    if isinstance(value, dict):
        return {hide(str(name)): _concealed(inner, known, hide) for name, inner in value.items()}
    return [_concealed(inner, known, hide) for inner in value] if isinstance(value, list | tuple) else value


def concealed_body(body: Mapping[str, Any], known: Mapping[str, dict[str, str]]) -> dict[str, Any]:
    """A report's body; its error was hidden when it was created, before it was cut."""
    hide = Hiding(known)
    return {name: value if name == "error" else _concealed(value, known, hide) for name, value in body.items()}


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
