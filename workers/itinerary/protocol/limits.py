"""Limits as a run names them, and the lane in which it waits: runs of one lane wait in order, lanes take turns.

Both are written with the run and never change. Light to import. Owns their stored form.
"""

import json
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

LIMIT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
LIMIT_RULE: Final = "start with a letter or digit, then letters, digits, '.', '_' or '-', 128 at most"
MOST_LIMITS: Final = 4
MOST_KEY: Final = 256


class LimitUse(NamedTuple):
    """A limit by its name, with the key for which it counts the run; None for a limit without keys."""

    name: str
    key: str | None = None


def limits_text(limits: Sequence[LimitUse]) -> str | None:
    """The stored form of a run's limits; None without any."""
    return json.dumps(limits, ensure_ascii=False, separators=(",", ":")) if limits else None


def limits_of(text: str) -> tuple[LimitUse, ...]:
    """The limits of a stored form; ValueError or TypeError for any other text."""
    return tuple(LimitUse(name, key) for name, key in json.loads(text))


def lane_of(limits: Sequence[LimitUse], fair_key: str | None = None, job_id: str | None = None) -> str:
    """The lane of a run: that of its limits with keys, else of its fair key, else of its job, else ''."""
    keyed = sorted(limit for limit in limits if limit.key is not None)
    if keyed:
        return f"limits:{limits_text(keyed)}"
    if fair_key is not None:
        return f"key:{fair_key}"
    return "" if job_id is None else f"job:{job_id}"
