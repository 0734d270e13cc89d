"""Limits as database rows and back. Never talks to the database."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from itinerary.protocol.instants import Duration
from scheduler_service.core.limits import QUEUE, Bounds, Limit, Rate
from scheduler_service.sql.control_tables import limits, queues

LIMIT_COLUMNS: Final = (
    limits.c.name, limits.c.concurrency, limits.c.rate_count, limits.c.rate_per, limits.c.per_key, limits.c.overrides,
    limits.c.description,
)  # fmt: skip
QUEUE_BOUNDS: Final = (queues.c.concurrency, queues.c.rate_count, queues.c.rate_per)


def limit_of(row: Sequence[Any]) -> Limit:
    """The limit of a row of LIMIT_COLUMNS."""
    name, concurrency, count, per, per_key, overrides, description = row
    of_keys = {key: bounds_of(**override) for key, override in overrides.items()}
    return Limit(name, bounds_of(concurrency, count, per), per_key, of_keys, description)


def limit_values(limit: Limit) -> dict[str, Any]:
    """The values of its row, those of its times excepted."""
    overrides = {key: bounds_values(bounds) for key, bounds in limit.overrides.items()}
    return {
        "name": limit.name, **bounds_values(limit.bounds), "per_key": limit.per_key, "overrides": overrides,
        "description": limit.description,
    }  # fmt: skip


def queue_limit(queue: str, bounds: Bounds) -> Limit:
    """The limit that a queue itself is."""
    return Limit(QUEUE + queue, bounds)


def bounds_of(
    concurrency: int | None = None, rate_count: int | None = None, rate_per: Duration | None = None
) -> Bounds:
    """The bounds of stored values."""
    return Bounds(concurrency, None if rate_count is None or rate_per is None else Rate(rate_count, rate_per))


def bounds_values(bounds: Bounds) -> Mapping[str, int | None]:
    """The stored values of bounds."""
    rate = bounds.rate
    return {
        "concurrency": bounds.concurrency,
        "rate_count": None if rate is None else rate.count,
        "rate_per": None if rate is None else rate.per,
    }
