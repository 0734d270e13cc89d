"""Idempotency keys: where a request carries one, and whose it is. Pure.

Promises: a key belongs to its caller, so two tokens with the same key create two requests. Callers without tokens and
`enqueue_in` share one space. Keys and hashes stored by an older release still match for the same caller.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.run_request import KEY_FIELD, read_key
from scheduler_service.core.audit import THIS_MACHINE, Caller
from scheduler_service.core.model import NewRun

# No key that a caller can give contains it, so that no caller can name another caller's key.
_OWNED_BY: Final = "\x1f"


def with_key(body: Mapping[str, Any], header: str | None) -> dict[str, Any]:
    """Return the body with the key of the header Idempotency-Key, bare or in quotes; BadValue if both differ."""
    if body.get(KEY_FIELD) is not None:
        read_key(body[KEY_FIELD])
    if header is None:
        return dict(body)
    quoted = len(header) > 1 and header[0] == header[-1] == '"'
    key = read_key(header[1:-1] if quoted else header, "Idempotency-Key")
    if body.get(KEY_FIELD) not in (None, key):
        raise BadValue(KEY_FIELD, body[KEY_FIELD], "the header Idempotency-Key differs; give only one of them")
    return {**body, KEY_FIELD: key}


def owned_key(key: str, who: Caller) -> str:
    """Return the key as stored: within the space of its caller."""
    return key if who == THIS_MACHINE else f"{who.name}{_OWNED_BY}{key}"


def shown_key(stored: str) -> str:
    """Return the key as its caller gave it."""
    return stored.rpartition(_OWNED_BY)[2]


def owned(run: NewRun, who: Caller) -> NewRun:
    """Return the run with its key in the space of its caller."""
    if run.idempotency_key is None or who == THIS_MACHINE:
        return run
    key = run.idempotency_key
    return replace(run, idempotency_key=owned_key(key, who), older=(key, run.older[1]))
