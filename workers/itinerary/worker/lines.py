"""Commands to Redis without redis-py's client around each, which takes longer than the command itself.

Owns the connections of one process, each of which one thread or greenlet uses at a time. Promises that none is used
again that may still hold an answer for somebody else, and that no command is repeated. Holds no lock.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import redis

Command = Sequence[str | int]


class Lines:
    """The connections of this client's address; each is opened at its first use."""

    def __init__(self, client: redis.Redis) -> None:
        self._pool = client.connection_pool
        self._open: list[Any] = []
        self._closed: list[Any] = []

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """The answers, in one round trip; that of a command which Redis refuses is its error. Raises if it is away."""
        line = self._take()
        try:
            line.connect()  # asks the Sentinels where there are some, which sending does not
            line.send_packed_command(line.pack_commands(commands))
            answers = [_answer(line) for _ in commands]
        except BaseException:  # also a signal's, raised amid the answers
            line.disconnect()
            self._closed.append(line)
            raise
        self._open.append(line)
        return answers

    def _take(self) -> Any:
        with suppress(IndexError):  # asked for, not looked up: another thread may take the last one
            return _unless_ended(self._open.pop())
        with suppress(IndexError):
            return self._closed.pop()
        return self._pool.make_connection()


def _unless_ended(line: Any) -> Any:
    """Close a connection that Redis has closed, as it does when it restarts: the next command opens it again."""
    try:
        has_ended = line.can_read()
    except (redis.ConnectionError, redis.TimeoutError, OSError):
        has_ended = True
    if has_ended:
        line.disconnect()
    return line


def _answer(line: Any) -> Any:
    try:
        return line.read_response()
    except redis.ResponseError as exc:
        return exc
