"""Zone files of a folder or of a wheel of tzdata, read for a comparison; nothing is installed."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from itinerary.protocol.errors import BadValue
from scheduler_service.core.schedules.zone_rules import is_refused, version_in
from scheduler_service.core.schedules.zone_sets import ZoneSet

_MAGIC: Final = b"TZif"
_MOST_BYTES: Final = 16 << 20
_FOLDERS: Final = ("", "zoneinfo", "tzdata/zoneinfo")
_GIVE: Final = "give in-force, before, installed, a folder of zone files (/usr/share/zoneinfo), or a wheel of tzdata"


def read_zone_files(path: Path, option: str) -> ZoneSet:
    """Read the set of zone files at this path; BadValue names the option."""
    try:
        found = _of_wheel(path) if path.is_file() else _of_folder(path)
    except (OSError, zipfile.BadZipFile) as exc:
        raise BadValue(option, str(path), f"{_GIVE} ({exc})") from exc
    zones = {name: content for name, content in found.items() if content.startswith(_MAGIC) and not is_refused(name)}
    if "UTC" not in zones:
        raise BadValue(option, str(path), _GIVE)
    return ZoneSet(version_in(found), zones)


def _of_folder(path: Path) -> Mapping[str, bytes]:
    root = next((path / below for below in _FOLDERS if (path / below / "UTC").is_file()), None)
    if root is None:
        return {}
    files = (file for file in sorted(root.rglob("*")) if file.is_file())
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in files}


def _of_wheel(path: Path) -> Mapping[str, bytes]:
    below = "tzdata/zoneinfo/"
    with zipfile.ZipFile(path) as wheel:
        members = [member for member in wheel.infolist() if member.filename.startswith(below) and not member.is_dir()]
        if sum(member.file_size for member in members) > _MOST_BYTES:
            raise zipfile.BadZipFile(f"more than {_MOST_BYTES >> 20} MB of zone files")
        return {member.filename.removeprefix(below): wheel.read(member) for member in members}
