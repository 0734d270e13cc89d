"""The attempts whose logs somebody watches now, known to all processes of a worker by memory that they share.

Owns that memory. Promises that asking costs no system call, and no traffic where nobody watches. Only the main process
writes it, with its heartbeats; a process that was not forked from it sees nobody. An answer may be wrong for others
than the attempts that were told: who acts on it asks Redis.
"""

import logging
import mmap
from collections.abc import Callable, Collection
from hashlib import blake2b
from typing import Final

from itinerary.worker.connection import AWAY, RedisConnection

_PLACES: Final = 256
_MARK: Final = 8

log = logging.getLogger("itinerary.worker")


class WatchedAttempts:
    """The marks of the watched ones; create them before the processes that shall read them."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _MARK * (_PLACES + 1))

    def show(self, task_ids: Collection[str]) -> None:
        """Let these be the watched ones; a worker has no more than 256 of them."""
        marks = [_mark(task_id) for task_id in task_ids][:_PLACES]
        self._memory[_MARK : _MARK * (len(marks) + 1)] = b"".join(marks)
        self._memory[:2] = len(marks).to_bytes(2, "little")

    def any(self) -> bool:
        """Whether somebody watches something."""
        return self._memory[:2] != b"\0\0"

    def shows(self, task_id: str) -> bool:
        """Whether somebody watches this attempt."""
        number = int.from_bytes(self._memory[:2], "little")
        marks = self._memory[_MARK : _MARK * (number + 1)]
        wanted = _mark(task_id)
        return number > 0 and any(marks[at : at + _MARK] == wanted for at in range(0, len(marks), _MARK))


def find_watched(
    watched: WatchedAttempts | None, connection: RedisConnection, claimed: Callable[[], Collection[str]]
) -> None:
    """Show which running attempts somebody watches; one question of Redis while there is nobody."""
    if watched is None:
        return
    keys, client = connection.keys, connection.client
    try:
        running = sorted(claimed()) if client.exists(keys.watched) else []
        with client.pipeline(transaction=False) as pipe:
            for task_id in running:
                pipe.exists(keys.watch(task_id))
            found = pipe.execute()
    except AWAY as exc:
        log.debug("redis does not say which logs are watched: %s", exc)
        return
    watched.show([task_id for task_id, is_watched in zip(running, found, strict=True) if is_watched])


def _mark(task_id: str) -> bytes:
    return blake2b(task_id.encode(errors="replace"), digest_size=_MARK).digest()
