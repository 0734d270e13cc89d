"""The zone rules installed on this host: the newer of the host's files and the Python package tzdata.

Python's zoneinfo reads the host's files first, however old they are. This module compares the two versions, once a
process, and reads the zones of the newer one. It does not change zoneinfo itself, which a user's program may use too.
Which rules decide is elsewhere: those that the installation adopted, see `zone_eras`.
"""

import re
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, Literal

_VERSION: Final = re.compile(r"(\d{4})([a-z]{1,2})", re.ASCII)
_VERSION_FILES: Final = ("tzdata.zi", "+VERSION", "version")
_FIRST_LINE: Final = 200
# These name the machine's own setting, or no zone.
_NOT_ZONES: Final = frozenset({"localtime", "posixrules", "factory"})
# `right/` counts leap seconds, which no database and no Redis does; `posix/` is every zone a second time.
_NOT_FOLDERS: Final = ("right/", "posix/")


@dataclass(frozen=True, slots=True)
class ZoneRules:
    """A set of zone files: its IANA version (`unknown` if nothing states it) and its location."""

    version: str
    source: Literal["package", "host"]
    folder: str = ""

    @property
    def text(self) -> str:
        """Describe the rules for people: `2026f of the tzdata package`."""
        where = "of the tzdata package" if self.source == "package" else f"of this host, {self.folder}"
        return f"{self.version} {where}"


@lru_cache(maxsize=1)
def installed_rules() -> ZoneRules:
    """Return the zone rules installed on this host."""
    return newest(_package(), _host(zoneinfo.TZPATH))


def difference(in_force: str) -> str | None:
    """Say how the rules installed here differ from those in force; None if they do not."""
    own = installed_rules()
    if own.version == in_force:
        return None
    if is_newer(own.version, in_force):
        return (
            f"newer than those in force ({own.text}; {in_force}): they come into force when a leader with them starts"
        )
    return f"older than those in force ({own.text}; {in_force}), by which this process goes all the same"


def newest(package: ZoneRules | None, host: ZoneRules | None) -> ZoneRules:
    """Return the newer of two sets; the package if both are equal or the host's version is unknown."""
    if package is None or host is None:
        found = package or host
        if found is None:
            raise RuntimeError("this host has no time zones: install the Python package tzdata")
        return found
    return host if is_newer(host.version, package.version) else package


def is_newer(version: str, than: str) -> bool:
    """Whether an IANA version is newer than another; one that is unknown is older than all."""
    return _age(version) > _age(than)


def _age(version: str) -> tuple[int, int, str]:
    found = _VERSION.fullmatch(version)
    return (int(found[1]), len(found[2]), found[2]) if found else (0, 0, "")


def _package() -> ZoneRules | None:
    try:
        import tzdata  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        return None
    return ZoneRules(str(tzdata.IANA_VERSION), "package")


def _host(path: tuple[str, ...]) -> ZoneRules | None:
    """Return the first folder that has zones, in zoneinfo's search order."""
    for folder in path:
        if _bytes_of(f"{folder}/UTC") or _bytes_of(f"{folder}/Etc/UTC"):
            return ZoneRules(_version_of(folder), "host", folder)
    return None


def _version_of(folder: str) -> str:
    return version_in({name: _bytes_of(f"{folder}/{name}") for name in _VERSION_FILES})


def version_in(files: Mapping[str, bytes]) -> str:
    """Return the IANA version that one of these files beside the zones states, or `unknown`."""
    for name in _VERSION_FILES:
        found = _VERSION.search(files.get(name, b"")[:_FIRST_LINE].decode("ascii", "replace"))
        if found:
            return found[0]
    return "unknown"


def _bytes_of(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Return every name that means a place or an offset."""
    names = set() if installed_rules().source == "package" else zoneinfo.available_timezones()
    if _package() is not None:
        names |= set(files("tzdata").joinpath("zones").read_text("ascii").split())
    return frozenset(name for name in names if not is_refused(name))


def is_refused(name: str) -> bool:
    """Whether this is a file beside the zones and not a zone, in any spelling that a file system may accept."""
    return name.casefold() in _NOT_ZONES or name.casefold().startswith(_NOT_FOLDERS)


def zone_file(name: str) -> bytes:
    """Return the TZif file of one of `zone_names`."""
    rules = installed_rules()
    content = _bytes_of(f"{rules.folder}/{name}") if rules.source == "host" else b""
    if content:
        return content
    found: Traversable = files("tzdata").joinpath("zoneinfo")
    for part in name.split("/"):
        found = found.joinpath(part)
    return found.read_bytes()
