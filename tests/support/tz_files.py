"""The offset changes of a zone as its file lists them: what our own sampling is held against."""

import struct

from scheduler_service.core.schedules.zone_rules import zone_file
from scheduler_service.core.schedules.zone_rules import zone_names as names_in_use

_HEADER = struct.Struct(">4sc15x6l")


def zone_names() -> list[str]:
    """Every zone of the rules in use, in order."""
    return sorted(names_in_use())


def listed_changes(name: str) -> list[tuple[int, int, int]]:
    """(second, offset before, offset after) of each change that the file lists one by one."""
    content = zone_file(name)
    _, _, _, _, leaps, times, kinds, letters = _counts(content, 0)
    start = _HEADER.size + times * 5 + kinds * 6 + letters + leaps * 8 + sum(_counts(content, 0)[2:4])
    _, _, _, _, _, times, kinds, _ = _counts(content, start)
    body = content[start + _HEADER.size :]
    moments = struct.unpack(f">{times}q", body[: 8 * times])
    which = body[8 * times : 9 * times]
    offsets = [struct.unpack(">lbB", body[9 * times + 6 * n :][:6])[0] for n in range(kinds)]
    before = [offsets[0], *(offsets[n] for n in which)]
    rows = zip(moments, before, (offsets[n] for n in which), strict=False)
    return [(moment, old, new) for moment, old, new in rows if old != new]


def _counts(content: bytes, at: int) -> tuple[int, ...]:
    header: tuple[int, ...] = _HEADER.unpack(content[at : at + _HEADER.size])
    return header


def zone_file_of(first_offset: int, *changes: tuple[int, int]) -> bytes:
    """A TZif file: the offset (seconds east) before all changes, and each change as (second, offset after it)."""
    offsets = [first_offset, *(offset for _, offset in changes)]
    kinds = b"".join(struct.pack(">lbB", offset, 0, 0) for offset in offsets)
    header = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, len(changes), len(offsets), 4)
    moments = [second for second, _ in changes]
    which = bytes(range(1, len(offsets)))
    old = struct.pack(f">{len(changes)}l", *moments) + which + kinds + b"XXX\0"
    new = struct.pack(f">{len(changes)}q", *moments) + which + kinds + b"XXX\0"
    return header + old + header + new + b"\n\n"
