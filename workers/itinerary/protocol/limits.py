"""Limits as jobs and runs name them, and the lane in which a run waits. Runs of a lane wait in order, lanes take turns.

Limits and lane are written with the run and never change. Light to import. Owns their JSON, and their stored form.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

from itinerary.protocol.errors import BadValue
from itinerary.protocol.field_types import FieldType, read_list
from itinerary.protocol.json_text import is_storable

LIMIT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
LIMIT_RULE: Final = "start with a letter or digit, then letters, digits, '.', '_' or '-', 128 at most"
MOST_LIMITS: Final = 4
MOST_KEY: Final = 256
_LARGEST_LANE: Final = 1_000  # bytes: databases refuse an index entry of 2,700
_KEY: Final = "key:"
_WHOLE: Final = range(-(2**63), 2**63)
KEY_RULE: Final = f"give a text of 1 to {MOST_KEY} characters without NUL"
ARGUMENT_RULE: Final = f"a text of 1 to {MOST_KEY} characters or a whole number"
_PATH_RULE: Final = 'give the path of an argument, such as "kwargs.tenant" or "args.0"'


class LimitUse(NamedTuple):
    """A limit by its name, with the key for which it counts the run; None for a limit without keys."""

    name: str
    key: str | None = None

    def __str__(self) -> str:
        return self.name if self.key is None else f"{self.name}/{self.key}"


class KeyFrom(NamedTuple):
    """The path of the argument that a run's key is taken from: `kwargs.tenant`, `args.0`."""

    path: str

    def of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The key of a run with these arguments; BadValue, by the path, if they do not have one."""
        head, *parts = self.path.split(".")
        found: Any = args if head == "args" else kwargs
        for part in parts:
            if isinstance(found, Mapping):
                found = found.get(part)
            elif isinstance(found, list | tuple) and part.isdecimal() and int(part) < len(found):
                found = found[int(part)]
            else:
                found = None
        if isinstance(found, int) and not isinstance(found, bool) and found in _WHOLE:
            return str(found)
        if not _is_key(found):
            raise BadValue(self.path, found, f"give {ARGUMENT_RULE}: the job takes a key from it")
        return str(found)


class JobLimit(NamedTuple):
    """A limit as a job names it for its runs."""

    name: str
    key: str | KeyFrom | None = None


@dataclass(frozen=True)
class Key(FieldType):
    """The key of a limit or of a lane; `of_job`: it may be taken from an argument of each run."""

    of_job: bool = False

    def read(self, value: Any, field: str) -> str | KeyFrom:
        """The key, or the place that it is taken from."""
        if not isinstance(value, dict):
            if not _is_key(value):
                raise BadValue(field, value, KEY_RULE)
            return str(value)
        if not self.of_job:
            raise BadValue(field, value, "give the key itself: only a job takes it from the arguments of its runs")
        if value.keys() != {"from"}:
            raise BadValue(field, value, f"{KEY_RULE}, or an object with `from` alone")
        path = value["from"]
        if not isinstance(path, str) or not _is_path(path):
            raise BadValue(f"{field}.from", path, _PATH_RULE)
        return KeyFrom(path)

    def write(self, value: str | KeyFrom) -> Any:
        """The key, or an object with `from`."""
        return {"from": value.path} if isinstance(value, KeyFrom) else value


@dataclass(frozen=True)
class Limits(FieldType):
    """Up to four limits, each a name or an object of name and key; the same key of one limit only once."""

    of_job: bool = False

    def read(self, value: Any, field: str) -> tuple[Any, ...]:
        """The limits in their order: LimitUse of a run, JobLimit of a job."""
        given = read_list(value, field)
        if len(given) > MOST_LIMITS:
            raise BadValue(field, f"a list of {len(given)}", f"give at most {MOST_LIMITS} limits")
        read = tuple(self._read(one, f"{field}.{place}") for place, one in enumerate(given))
        for place, limit in enumerate(read):
            if limit in read[:place]:
                raise BadValue(f"{field}.{place}", given[place], "name each limit once, or each time with another key")
        return read

    def _read(self, value: Any, field: str) -> Any:
        of = JobLimit if self.of_job else LimitUse
        if not isinstance(value, dict):
            return of(_name(value, field))
        for name in sorted(value.keys() - {"name", "key"}):
            raise BadValue(f"{field}.{name}", value[name], "this field is not known; known are key, name")
        key = value.get("key")
        return of(
            _name(value.get("name"), f"{field}.name"),
            None if key is None else Key(self.of_job).read(key, f"{field}.key"),  # type: ignore[arg-type]
        )

    def write(self, value: Sequence[JobLimit | LimitUse]) -> list[Any]:
        """A list of names and objects."""
        if not value:
            return []
        key = Key(self.of_job)
        return [one.name if one.key is None else {"name": one.name, "key": key.write(one.key)} for one in value]


RUN_LIMITS: Final = Limits()
JOB_LIMITS: Final = Limits(of_job=True)


def _name(value: Any, field: str) -> str:
    if not isinstance(value, str) or not LIMIT.fullmatch(value):
        raise BadValue(field, value, f"give the name of a limit, or an object of `name` and `key`; {LIMIT_RULE}")
    return value


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MOST_KEY and is_storable(value)


def _is_path(path: str) -> bool:
    head, *parts = path.split(".")
    return _is_key(path) and head in ("args", "kwargs") and bool(parts) and all(parts)


def uses_of(
    limits: Sequence[JobLimit],
    fair_key: str | KeyFrom | None,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    errors: list[BadValue],
) -> tuple[tuple[LimitUse, ...], str | None]:
    """The limits and the fair key of a job's run with these arguments.

    A key that they do not have is left out, with its limit, and its error is added.
    """
    if not limits and not isinstance(fair_key, KeyFrom):
        return (), fair_key
    uses: list[LimitUse] = []
    for name, key in limits:
        try:
            uses.append(LimitUse(name, key.of(args, kwargs) if isinstance(key, KeyFrom) else key))
        except BadValue as exc:
            errors.append(exc)
    if isinstance(fair_key, KeyFrom):
        try:
            fair_key = fair_key.of(args, kwargs)
        except BadValue as exc:
            errors.append(exc)
            fair_key = None
    return _shared(tuple(dict.fromkeys(uses))), fair_key


def check_fair_key(limits: Sequence[JobLimit | LimitUse], fair_key: str | None, errors: list[BadValue]) -> None:
    """Add an error for a fair key that a run was given and would not go by: its lane is that of its limits' keys."""
    keyed = next((limit.name for limit in limits if limit.key is not None), None)
    if keyed is not None and fair_key is not None:
        rule = f"leave it out: the limit {keyed} has a key, and runs take turns by the keys of their limits"
        errors.append(BadValue("fair_key", fair_key, rule))


@lru_cache(maxsize=4_096)
def _shared(uses: tuple[LimitUse, ...]) -> tuple[LimitUse, ...]:
    """Memoise: runs of equal limits share one object."""
    return uses


def limits_text(limits: Sequence[LimitUse]) -> str | None:
    """The stored form of a run's limits; None without any."""
    return json.dumps(limits, ensure_ascii=False, separators=(",", ":")) if limits else None


def limits_of(text: str) -> tuple[LimitUse, ...]:
    """The limits of a stored form; ValueError or TypeError for any other text."""
    pairs = [(name, key) for name, key in json.loads(text)]
    if not all(isinstance(name, str) and (key is None or isinstance(key, str)) for name, key in pairs):
        raise ValueError("a limit is a name and a key")
    return tuple(LimitUse(name, key) for name, key in pairs)


def lane_of(limits: Sequence[LimitUse], fair_key: str | None = None, job_id: str | None = None) -> str:
    """The lane of a run: of its limits with keys, else of its fair key, else of its job, else of all its limits."""
    keyed = [limit for limit in limits if limit.key is not None] if limits else None
    if keyed:
        return _lane_of_limits(tuple(sorted(keyed)))
    if fair_key is not None:
        return f"{_KEY}{fair_key}"
    if job_id is not None:
        return f"job:{job_id}"
    return _lane_of_limits(tuple(sorted(limits))) if limits else ""


@lru_cache(maxsize=4_096)
def _lane_of_limits(uses: tuple[LimitUse, ...]) -> str:
    """The limits themselves, or their hash where that is too long for an index."""
    text = limits_text(uses) or ""
    written = text.encode()
    return f"limits:{text}" if len(written) <= _LARGEST_LANE else f"limits:#{sha256(written).hexdigest()}"


def fair_key_of(lane: str) -> str | None:
    """The fair key by which a run has its lane; None if it has another lane."""
    return lane.removeprefix(_KEY) if lane.startswith(_KEY) else None
