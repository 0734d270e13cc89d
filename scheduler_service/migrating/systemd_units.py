"""Unit files of systemd as assignments, in the order in which systemd reads them: a file, then its drop-ins.

Only `units_in` reads files. The text of many units is that of `systemctl cat`: a comment with its path begins each.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from itinerary.protocol.errors import BadValue

_BEGINS: Final = re.compile(r"# (/\S+)")
_SUFFIXES: Final = (".timer", ".service")
MOST_BYTES: Final = 4 * 1024 * 1024


@dataclass(slots=True)
class Unit:
    """One unit: its sections, each key with its values; an empty value forgets those above it."""

    name: str
    masked: bool = False
    sections: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def all(self, section: str, key: str) -> list[str]:
        """Return every value of a list."""
        return self.sections.get(section, {}).get(key, [])

    def last(self, section: str, key: str) -> str | None:
        """Return the value that holds."""
        found = self.all(section, key)
        return found[-1] if found else None

    def keys(self, section: str) -> list[str]:
        """Return the keys that have a value."""
        return sorted(key for key, values in self.sections.get(section, {}).items() if values)


def units_of(text: str) -> dict[str, Unit]:
    """The units of a text as `systemctl cat` prints it, by name."""
    units: dict[str, Unit] = {}
    unit, section, pending = Unit(""), "", ""
    for line in text.splitlines():
        if begins := _BEGINS.fullmatch(line.strip()):
            name = _unit_name(Path(begins[1]))
            unit, section, pending = units.setdefault(name, Unit(name)), "", ""
            continue
        stripped = line.strip()
        if stripped.startswith(("#", ";")) or (not stripped and not pending):
            continue
        if line.endswith("\\"):
            pending += line[:-1].strip() + " "
            continue
        section = _read(unit, section, (pending + stripped).strip())
        pending = ""
    return units


def _read(unit: Unit, section: str, line: str) -> str:
    """Lay one line over the unit; the section in which the next line stands."""
    if line.startswith("[") and line.endswith("]"):
        return line[1:-1]
    key, equals, value = line.partition("=")
    if equals:
        held = unit.sections.setdefault(section, {}).setdefault(key.strip(), [])
        held[:] = [*held, value.strip()] if value.strip() else []
    return section


def _unit_name(path: Path) -> str:
    return path.parent.name.removesuffix(".d") if path.suffix == ".conf" else path.name


def units_in(place: Path) -> dict[str, Unit]:
    """The timers and services of a folder, or of the folder of a timer; BadValue for what cannot be read."""
    folder = place if place.is_dir() else place.parent
    text, masked = "", []
    try:
        for path in sorted(folder.iterdir()):
            if path.suffix in _SUFFIXES and path.resolve() == Path("/dev/null"):
                masked.append(path.name)
            elif path.suffix in _SUFFIXES and path.is_file():
                text += "".join(_with_header(each) for each in _files_of(path))
            if len(text) > MOST_BYTES:
                raise BadValue("PLACE", str(folder), f"give unit files of at most {MOST_BYTES:,} characters in all")
        if not place.exists():
            raise BadValue("PLACE", str(place), "no such file or folder: give a folder of units, or a timer")
    except (OSError, UnicodeDecodeError) as exc:
        raise BadValue("PLACE", str(place), f"give a readable folder of units, or a timer ({exc})") from exc
    return units_of(text) | {name: Unit(name, masked=True) for name in masked}


def _files_of(path: Path) -> Iterator[Path]:
    yield path
    yield from sorted((path.parent / f"{path.name}.d").glob("*.conf"))


def _with_header(path: Path) -> str:
    # A comment of the file's own that looks like a header would begin another unit.
    own = "\n".join(line for line in path.read_text("utf-8").splitlines() if not _BEGINS.fullmatch(line.strip()))
    return f"# {path.absolute()}\n{own}\n"


def service_of(timer: Unit, units: Mapping[str, Unit]) -> tuple[str, Unit | None]:
    """The service that a timer starts; that of its template where it is an instance."""
    stem = timer.name.removesuffix(".timer")
    name = timer.last("Timer", "Unit") or f"{stem}.service"
    template = f"{name.partition('@')[0]}@.service" if "@" in name else name
    return name, units.get(name) or units.get(template)
