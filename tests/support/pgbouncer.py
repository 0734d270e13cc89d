"""A real PgBouncer for tests, before a PostgreSQL server that trusts everybody on loopback."""

import os
import shutil
import socket
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from sqlalchemy import make_url

from tests.support.processes import Child, free_port, wait_until

PoolMode = Literal["transaction", "session"]
ABSENT: Final = "PgBouncer is not installed (Debian: apt-get install pgbouncer)"
_CONFIG: Final = """\
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 200
query_wait_timeout = 10
server_login_retry = 1
{more}
"""


def find_pgbouncer() -> str | None:
    """The program of this machine; Debian puts it where only root's PATH looks."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")


class PgBouncer(AbstractContextManager["PgBouncer"]):
    """A pooler before the server of `database_url`; `url` is the same database through it."""

    def __init__(self, database_url: str, mode: PoolMode = "transaction", *, size: int = 2, more: str = "") -> None:
        self._behind = make_url(database_url)
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="itinerary-pgbouncer-", dir="/tmp"))
        server = {"host": self._behind.host, "port": self._behind.port, "user": self._behind.username}
        text = _CONFIG.format(**server, listen=self.port, mode=mode, size=size, more=more)
        (self._folder / "pgbouncer.ini").write_text(text)
        self._folder.chmod(0o755)
        self._child: Child | None = None

    @property
    def url(self) -> str:
        return self._behind.set(host="127.0.0.1", port=self.port).render_as_string(hide_password=False)

    @property
    def output(self) -> str:
        return "" if self._child is None else self._child.output

    def __enter__(self) -> Self:
        program = find_pgbouncer()
        assert program is not None, ABSENT
        user = "nobody" if os.geteuid() == 0 else None
        child = self._child = Child([program, str(self._folder / "pgbouncer.ini")], cwd=self._folder, user=user)
        wait_until(lambda: self._listens() or not child.running, what=lambda: child.output)
        assert child.running, child.output
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True
