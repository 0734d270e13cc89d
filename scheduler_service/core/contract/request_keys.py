"""Idempotency keys: how a request bears one, and whose it is. Pure.

Promises: a key is its caller's own, so that two tokens with the same key make two requests; whoever asks without
tokens, and `enqueue_in`, share one space. Keys and hashes that an older release stored still match for the same caller.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.run_request import KEY_FIELD, read_key
from scheduler_service.core.audit import THIS_MACHINE, Caller
from scheduler_service.core.model import NewRun

# No key that a caller can give holds it, so that no caller can name another one's.
_OWNED_BY: Final = "\x1f"


def with_key(body: Mapping[str, Any], header: str | None) -> dict[str, Any]:
    """The body with the key of the header Idempotency-Key, bare or in quotes; BadValue where both differ."""
    if body.get(KEY_FIELD) is not None:
        read_key(body[KEY_FIELD])
    if header is None:
        return dict(body)
    quoted = len(header) > 1 and header[0] == header[-1] == '"'
    key = read_key(header[1:-1] if quoted else header, "Idempotency-Key")
    if body.get(KEY_FIELD) not in (None, key):
        raise BadValue(KEY_FIELD, body[KEY_FIELD], "the header Idempotency-Key has another one; give one of them")
    return {**body, KEY_FIELD: key}


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
