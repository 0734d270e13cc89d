"""A Celery task's `rate_limit`, offered as a limit: the commands to define and to name it, with what differs. Pure."""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, format_duration

_UNITS: Final = {"s": SECOND, "m": MINUTE, "h": HOUR}
_RATE: Final = re.compile(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*(?:/\s*([smh])\s*)?")
_MOST: Final = 100_000
_OTHERS: Final = re.compile(r"[^A-Za-z0-9._-]+")


def rate_limit_difference(task: str, rate_limit: Any) -> Iterator[str]:
    """Say how the limit of each worker becomes one over all of them; nothing for a task without one."""
    if not rate_limit:
        return
    rate = rate_of(rate_limit)
    if rate is None:
        yield f"the task's rate_limit {rate_limit!r} holds in each worker by itself, as before, and has no equal here"
        return
    name = _OTHERS.sub("-", task).strip("._-")[:128] or "task"
    yield (
        f"the task's rate_limit {rate_limit} holds in each worker by itself, as before; to hold it over all of them, at"
        f" most {rate} started in any window: `itinerary limits set {name} --rate {rate}`, then"
        f' `"limits": ["{name}"]` in the job'
    )


def rate_of(rate_limit: Any) -> str | None:
    """The rate as COUNT/PER, such as `10/1m`; None where a limit has no such rate."""
    found = _RATE.fullmatch(str(rate_limit))
    if found is None:
        return None
    given = Fraction(found[1])
    count, per = given.numerator, given.denominator * _UNITS[found[2] or "s"]
    return f"{count}/{format_duration(per)}" if 0 < count <= _MOST and per <= DAY else None
