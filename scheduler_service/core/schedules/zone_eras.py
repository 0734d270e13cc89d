"""The zone rules in force: which set of zone files decides from which instant on.

An installation stores each set that it adopts, and every process puts what is stored in force, so that all hosts plan
the same instants. Until then, the rules installed on this host decide. For schedules, the instant at which other rules
come into force is a change of the clocks like any other. Never reads a database or a clock.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeVar, cast

from scheduler_service.core.schedules.zone_rules import is_refused, zone_file, zone_names
from scheduler_service.core.schedules.zone_sets import ZoneSet

P = ParamSpec("P")
T = TypeVar("T")
ALWAYS: Final = -(2**62)
"""The `since` of the first era, in seconds: before it nothing is known."""


class Era(NamedTuple):
    """From `since` (seconds) on, until the next era, these rules decide."""

    since: int
    rules: ZoneSet


class _InForce:
    def __init__(self) -> None:
        self.eras: tuple[Era, ...] = ()
        self.names: frozenset[str] = frozenset()
        self.number = 0

    def put(self, eras: tuple[Era, ...]) -> None:
        self.names = frozenset(n for n in eras[-1].rules.files if not is_refused(n)) if eras else frozenset()
        self.eras = eras
        self.number += 1  # last: what was computed before it may have used either


_IN_FORCE: Final = _InForce()


def put_in_force(eras: Sequence[Era]) -> None:
    """Let these eras decide, oldest first; none: the rules installed on this host.

    A leader may be between terms only: its index and its planned rows belong to the eras of its term.
    """
    _IN_FORCE.put(tuple(eras))


def eras_in_force() -> tuple[Era, ...]:
    """Return the stored eras that this process goes by; none if it goes by the rules installed on this host."""
    return _IN_FORCE.eras


def number_in_force() -> int:
    """Return a number that grows when other rules come into force."""
    return _IN_FORCE.number


def names_in_force() -> frozenset[str]:
    """Return the names of all zones, by the newest rules."""
    return _IN_FORCE.names or zone_names()


class ZoneIn(str):
    """The name of a zone, told by other rules than those in force: for comparing two sets of rules."""

    __slots__ = ("eras", "zone")
    eras: tuple[Era, ...]
    zone: str

    @classmethod
    def of(cls, zone: str, eras: tuple[Era, ...]) -> "ZoneIn":
        """Name the zone by these eras; only the name of equal ones equals this one."""
        name = cls(" ".join([zone, *(f"{era.since} {era.rules.digest}" for era in eras)]))
        name.zone, name.eras = zone, eras
        return name


def files_of(name: str) -> tuple[tuple[int, bytes], ...]:
    """Return the zone's files, each with the second from which it decides; neighbours differ."""
    if isinstance(name, ZoneIn):
        return _files_in(name.zone, name.eras)
    if _IN_FORCE.eras:
        return _files_in(name, _IN_FORCE.eras)
    return ((ALWAYS, zone_file(name)),)


def _files_in(name: str, eras: tuple[Era, ...]) -> tuple[tuple[int, bytes], ...]:
    known = next(era.rules.files[name] for era in eras if name in era.rules.files)
    found: list[tuple[int, bytes]] = []
    for era in eras:
        known = era.rules.files.get(name, known)
        if found and found[-1][0] >= era.since:  # adopted within the same minute: the newer decides
            found.pop()
        if not found or found[-1][1] != known:
            found.append((era.since, known))
    return tuple(found)


def cached_by_rules(maxsize: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Memoise a function of the zone rules; what was computed by rules that are not in force is not returned."""

    def caching(function: Callable[P, T]) -> Callable[P, T]:
        def numbered(_number: int, *args: P.args, **kwargs: P.kwargs) -> T:
            return function(*args, **kwargs)

        kept = cast("Callable[Concatenate[int, P], T]", lru_cache(maxsize=maxsize)(numbered))

        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> T:
            return kept(_IN_FORCE.number, *args, **kwargs)

        return called

    return caching
