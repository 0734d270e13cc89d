"""A task's own `retry()`, as the leader is asked for it: when, and with which arguments. Pure, but for the clock."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from celery.utils.time import maybe_iso8601, maybe_make_aware
from kombu.utils.json import dumps as celerys_json

from itinerary.protocol.instants import SECOND, Instant, from_datetime
from itinerary.protocol.json_text import MOST_LEVELS, is_deep
from itinerary.protocol.typed_values import from_python
from itinerary.worker import reporting
from itinerary.worker.plain import ARGUMENTS_LIMIT


@dataclass(frozen=True, slots=True)
class AskedRetry:
    """The task's request by `retry()`; arguments are None if they are unchanged and too long to send."""

    due_at: Instant
    args: list[Any] | None
    kwargs: dict[str, Any] | None
    retries: int


def asked_retry(signature: Any, request: Any, timezone: Any) -> AskedRetry:
    """The retry that this signature stands for; ValueError or the like if it cannot be stored."""
    due_at = _due_at(signature.options, timezone)
    args, kwargs = _arguments(signature, request)
    return AskedRetry(due_at, args, kwargs, request.retries + 1)


def _due_at(options: Mapping[str, Any], timezone: Any) -> Instant:
    """The time at which Celery would have started it: after the countdown, or else at the requested time."""
    countdown, eta = options.get("countdown"), options.get("eta")
    if eta is None or countdown:
        return reporting.clock() + int((countdown or 0) * SECOND)
    moment: Any = maybe_iso8601(eta)
    return from_datetime(maybe_make_aware(moment, timezone))


def _arguments(signature: Any, request: Any) -> tuple[list[Any] | None, dict[str, Any] | None]:
    args, kwargs = list(signature.args or ()), dict(signature.kwargs or {})
    stored = from_python([args, kwargs], lambda value: json.loads(celerys_json(value)))
    try:
        text = celerys_json(stored, allow_nan=False)
    except ValueError as exc:  # without NaN and infinity, which no entry of the inbox can hold
        raise ValueError(f"retry() was given arguments that JSON cannot hold: {exc}") from None
    if len(text) > ARGUMENTS_LIMIT:
        if args == list(request.args or ()) and kwargs == dict(request.kwargs or {}):
            return None, None
        raise ValueError(f"retry() was given {len(text)} bytes of arguments; the limit is {ARGUMENTS_LIMIT}")
    if is_deep(text):
        raise ValueError(f"retry() was given arguments that nest too deep; the limit is {MOST_LEVELS} levels")
    plain_args, plain_kwargs = json.loads(text)
    return plain_args, plain_kwargs
