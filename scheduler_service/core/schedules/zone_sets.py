"""A set of zone files as one value: its version, its digest, and the form in which an installation stores it."""

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from io import BytesIO
from typing import Final
from zoneinfo import ZoneInfo

from itinerary.protocol.errors import BadValue
from scheduler_service.core.schedules.zone_rules import installed_rules, zone_file, zone_names

_MOST_BYTES: Final = 16 << 20


@dataclass(frozen=True, eq=False)
class ZoneSet:
    """The TZif files of one version of the zone rules, by the names of their zones."""

    version: str
    files: Mapping[str, bytes]

    @cached_property
    def digest(self) -> str:
        """The same for two sets with equal files, wherever they were installed."""
        found = sha256()
        for name, content in sorted(self.files.items()):
            found.update(b"%s %d\n" % (name.encode(), len(content)) + content)
        return found.hexdigest()

    def packed(self) -> str:
        """Pack the files for storage, equal ones once: many names mean the same place."""
        numbers: dict[bytes, int] = {}
        zones = {name: numbers.setdefault(self.files[name], len(numbers)) for name in sorted(self.files)}
        contents = [base64.b64encode(content).decode() for content in numbers]
        return base64.b64encode(zlib.compress(json.dumps({"files": contents, "zones": zones}).encode(), 9)).decode()


def unpacked(version: str, packed: str) -> ZoneSet:
    """Read a packed set; BadValue if it is none, is too large, or holds a file that is no zone."""
    unpack = zlib.decompressobj()
    try:
        text = unpack.decompress(base64.b64decode(packed, validate=True), _MOST_BYTES)
        if not unpack.eof:
            raise ValueError(f"cut off, or more than {_MOST_BYTES >> 20} MB")
        found = json.loads(text)
        contents = [base64.b64decode(content, validate=True) for content in found["files"]]
        files = {str(name): contents[number] for name, number in found["zones"].items()}
        for content in contents:
            ZoneInfo.from_file(BytesIO(content))
    except (zlib.error, ValueError, KeyError, IndexError, TypeError, AttributeError) as exc:
        raise BadValue("files", None, f"give zone files as `itinerary zones` packs them ({exc})") from exc
    return ZoneSet(version, files)


@lru_cache(maxsize=1)
def installed_set() -> ZoneSet:
    """Return the zone rules installed on this host, read once a process."""
    return ZoneSet(installed_rules().version, {name: zone_file(name) for name in zone_names()})
