"""Files that only the account that runs `itinerary up` may read: passwords, the database, the data of Redis.

Owns their modes: 0700 for folders and 0600 for files, also where an earlier version left them wider. Never touches
another account's file, nor the mode of a folder that also holds other people's files.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

FOLDER: Final = 0o700
FILE: Final = 0o600
PRIVATE_UMASK: Final = 0o077
_OURS: Final = (
    "itinerary.db*", "run.json*", "run.new", "up.lock", "flower.password*", "redis.url*", "redis", "valkey",
)  # fmt: skip


def private_folder(folder: Path) -> None:
    """Create the folder, and close it and our files in it to other accounts."""
    folder.mkdir(parents=True, exist_ok=True, mode=FOLDER)
    ours = {path for pattern in _OURS for path in folder.glob(pattern)}
    for path in ours:
        for found in (path, *_below(path)):
            _close(found)
    if ours.issuperset(folder.iterdir()):
        _close(folder)


def write_private(path: Path, text: str) -> None:
    """Replace a file, so that a reader sees the old or the new one whole and no other account sees either."""
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, FILE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as written:
        os.fchmod(written.fileno(), FILE)
        written.write(text)
    fresh.replace(path)


def private_opener(path: str, flags: int) -> int:
    """An opener for `open` that creates files as private."""
    return os.open(path, flags, FILE)


def kept_password(path: Path) -> tuple[str, bool]:
    """The password in the file, and whether it was created just now because there was none."""
    try:
        password = path.read_text("utf-8").strip()
    except FileNotFoundError:
        password = ""
    if password:
        return password, False
    password = new_password()
    write_private(path, password + "\n")
    return password, True


@contextmanager
def private_umask() -> Iterator[int]:
    """Create files as private inside the block, in this process and its children; yields the previous umask."""
    before = os.umask(PRIVATE_UMASK)
    try:
        yield before
    finally:
        os.umask(before)


def new_password() -> str:
    """A random password of letters, digits, `-` and `_`, which needs no encoding in an address."""
    return secrets.token_urlsafe(24)


def _below(path: Path) -> Iterator[Path]:
    return path.rglob("*") if path.is_dir() and not path.is_symlink() else iter(())


def _close(path: Path) -> None:
    """Remove the rights of group and others, unless another account owns the file."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return  # SQLite and Redis remove files of their own
    wanted = FOLDER if stat.S_ISDIR(found.st_mode) else FILE
    is_plain = stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)
    if is_plain and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(stat.S_IMODE(found.st_mode) & wanted)
