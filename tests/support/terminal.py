"""The command line on a terminal of so many columns, as a person sees it."""

import os
import pty
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fcntl import ioctl
from struct import pack
from termios import TIOCSWINSZ
from typing import Final

from tests.support.warm_command import start_service

_ROWS: Final = 40


@dataclass(frozen=True)
class Seen:
    """What stood on the terminal, and how the command ended."""

    text: str
    status: int


def on_a_terminal(env: Mapping[str, str], *words: str, columns: int = 80, typed: str = "") -> Seen:
    """Run a command to its end on a terminal; `typed` waits in its keyboard from the beginning."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, pack("HHHH", _ROWS, columns, 0, 0))
    environment = {**env, "TERM": "xterm", "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    process = start_service(words, environment, theirs, theirs, theirs)
    os.close(theirs)
    os.write(ours, typed.encode())
    parts: list[bytes] = []
    with suppress(OSError):  # how Linux says that the other end is closed
        while part := os.read(ours, 1 << 16):
            parts.append(part)
    os.close(ours)
    return Seen(b"".join(parts).decode().replace("\r\n", "\n"), process.wait())
