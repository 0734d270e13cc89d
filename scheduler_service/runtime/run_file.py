"""The record of a running `itinerary up` in its data folder, and the lock that makes it the only one there.

Owns `run.json` (addresses, ports, pids; for other commands and for the next start) and `up.lock`. Never holds a
password.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from itinerary.protocol.errors import ItineraryError
from scheduler_service.runtime.private_files import private_folder, private_opener, write_private

RUN_FILE: Final = "run.json"
LOCK_FILE: Final = "up.lock"
REDIS_FILE: Final = "redis.url"
"""The address of the Redis that `up` runs, with its password; only the account that runs it can read it."""


class AlreadyUp(ItineraryError):
    """Another `itinerary up` uses the data folder; the user stops it or chooses another folder."""


@contextmanager
def only_one(data_dir: Path) -> Iterator[None]:
    """Hold the lock on `data_dir` inside the block; AlreadyUp if another `up` has it. It ends with the process."""
    private_folder(data_dir)
    with open(data_dir / LOCK_FILE, "a+", opener=private_opener) as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.seek(0)
            holder = held.read().strip() or "unknown"
            raise AlreadyUp(
                f"another `itinerary up` (pid {holder}) runs on {data_dir}: stop it, or give --data-dir"
            ) from None
        held.truncate(0)
        held.write(f"{os.getpid()}\n")
        held.flush()
        yield


def read_run(data_dir: Path) -> dict[str, Any]:
    """The record of the last `up`; empty if there is none that can be read."""
    try:
        written = json.loads((data_dir / RUN_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return written if isinstance(written, dict) else {}


def write_run(data_dir: Path, content: Mapping[str, Any]) -> None:
    """Replace the record, so that a reader sees the old or the new one whole."""
    write_private(data_dir / RUN_FILE, json.dumps(content, indent=2) + "\n")


def record_run(data_dir: Path, content: Mapping[str, Any], report: Callable[[str], None]) -> None:
    """Replace the record; a full disk is reported and ends nothing of what runs."""
    try:
        write_run(data_dir, content)
    except OSError as exc:
        report(f"{data_dir / RUN_FILE} is not written: {exc.strerror}; other commands may not find this service")
