"""Idempotency keys: how a request bears one, whose it is, and what makes two requests the same. Pure.

Promises: a key is its caller's own, so that two tokens with the same key make two requests; whoever asks without
tokens, and `enqueue_in`, share one space. Keys and hashes that an older release stored still match for the same caller.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from scheduler_service.core.audit import THIS_MACHINE, Caller
from scheduler_service.core.errors import BadValue
from scheduler_service.core.instants import format_duration, format_instant, parse_duration, parse_instant
from scheduler_service.core.model import NewRun

FIELD: Final = "idempotency_key"
_LONGEST: Final = 255
# No key that a caller can give holds it, so that no caller can name another one's.
_OWNED_BY: Final = "\x1f"


def read_key(value: Any, field: str = FIELD) -> str:
    """The key of a request."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST or not value.isprintable():
        raise BadValue(field, value, f"give a text of 1 to {_LONGEST} printable characters")
    return value


def with_key(body: Mapping[str, Any], header: str | None) -> dict[str, Any]:
    """The body with the key of the header Idempotency-Key, bare or in quotes; BadValue where both differ."""
    if body.get(FIELD) is not None:
        read_key(body[FIELD])
    if header is None:
        return dict(body)
    quoted = len(header) > 1 and header[0] == header[-1] == '"'
    key = read_key(header[1:-1] if quoted else header, "Idempotency-Key")
    if body.get(FIELD) not in (None, key):
        raise BadValue(FIELD, body[FIELD], "the header Idempotency-Key has another one; give one of them")
    return {**body, FIELD: key}


def owned_key(key: str, who: Caller) -> str:
    """The key as it is stored: within the space of its caller."""
    return key if who == THIS_MACHINE else f"{who.name}{_OWNED_BY}{key}"


def shown_key(stored: str) -> str:
    """The key as its caller gave it."""
    return stored.rpartition(_OWNED_BY)[2]


def owned(run: NewRun, who: Caller) -> NewRun:
    """The run with its key in the space of its caller."""
    if run.idempotency_key is None or who == THIS_MACHINE:
        return run
    key = run.idempotency_key
    return replace(run, idempotency_key=owned_key(key, who), older=(key, run.older[1]))


def request_hash(body: Mapping[str, Any]) -> str:
    """The same for the same request: in whatever order, however it writes an instant or a duration; null is absent."""
    said = {key: value for key, value in body.items() if value is not None and key != FIELD}
    return _hash({**said, **_canonical(said)})


def older_hash(body: Mapping[str, Any]) -> str:
    """What an older release stored for the request: of the texts as they were written."""
    return _hash({key: value for key, value in body.items() if value is not None and key != FIELD})


def _canonical(said: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "run_at" in said:
        found["run_at"] = format_instant(parse_instant(said["run_at"]))
    if "timeout" in said:
        found["timeout"] = format_duration(parse_duration(said["timeout"]))
    retry = said.get("retry")
    if isinstance(retry, Mapping):
        durations = {name: format_duration(parse_duration(retry[name])) for name in ("initial", "max") if name in retry}
        found["retry"] = {**retry, **durations}
    return found


def _hash(said: Mapping[str, Any]) -> str:
    text = json.dumps(said, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
