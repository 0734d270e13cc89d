"""A real Redis that speaks TLS only and asks each client for a certificate, with certificates of a CA of its own."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
import redis

from scheduler_service.local.redis_server import NoRedisServer, ServerBinary, inspect_binary, path_binaries
from tests.support.redis_server import RedisServer

ABSENT: Final = "no openssl, or no Redis with TLS on PATH (Debian: apt-get install redis-tools)"
CHECKER: Final = "redis-check-rdb"
_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class Certificates:
    """A CA, and certificates that it signed: of the server, for 127.0.0.1, and of a client."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._openssl("req", "-x509", *_KEY, "-subj", "/CN=a test's own CA", *self._out("ca"))
        by_ca = ("-CA", self.file("ca.crt"), "-CAkey", self.file("ca.key"))
        host = ("-addext", "subjectAltName=IP:127.0.0.1")
        self._openssl("req", "-x509", *_KEY, *by_ca, "-subj", "/CN=server", *host, *self._out("server"))
        self._openssl("req", "-x509", *_KEY, *by_ca, "-subj", "/CN=client", *self._out("client"))

    def file(self, name: str) -> str:
        return str(self._folder / name)

    def _out(self, name: str) -> tuple[str, ...]:
        return "-keyout", self.file(f"{name}.key"), "-out", self.file(f"{name}.crt")

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class TlsRedis(RedisServer):
    """`url` has the client's certificate in its parameters; `bare` has the CA alone, `plain` no TLS."""

    def __init__(self, folder: Path) -> None:
        binary = _with_tls(folder)
        if binary is None or shutil.which("openssl") is None:
            pytest.skip(ABSENT)
        super().__init__(folder, binary)
        of = self.certificates = Certificates(folder)
        files = {
            "cert-file": of.file("server.crt"),
            "key-file": of.file("server.key"),
            "ca-cert-file": of.file("ca.crt"),
        }
        tls = [word for name, file in files.items() for word in (f"--tls-{name}", file)]
        self._options = ("--port", "0", "--tls-port", str(self.port), *tls)

    @property
    def plain(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def bare(self) -> str:
        return f"rediss://127.0.0.1:{self.port}/0?ssl_ca_certs={self.certificates.file('ca.crt')}"

    @property
    def url(self) -> str:
        of = self.certificates
        return f"{self.bare}&ssl_certfile={of.file('client.crt')}&ssl_keyfile={of.file('client.key')}"

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, decode_responses=True)


def _with_tls(folder: Path) -> ServerBinary | None:
    """The first server on PATH that can use TLS, else that of Debian's redis-tools, linked into `folder`."""
    for path in [*path_binaries(), *_checkers(folder)]:
        try:
            found = inspect_binary(path)
        except NoRedisServer:
            continue
        argv = [path, "--port", "0", "--tls-port", "1", "--tls-cert-file", "/nowhere"]
        tried = subprocess.run(argv, capture_output=True, text=True)
        if "tls-key-file" in tried.stdout:  # one without TLS does not miss it
            return found
    return None


def _checkers(folder: Path) -> list[Path]:
    """The server under its own name: Redis and its checker are one program, which goes by the name of its call.

    Debian's redis-tools has it as the checker alone: no service starts, and no other test finds a server on PATH.
    """
    program = shutil.which(CHECKER)
    if program is None:
        return []
    server = folder / "redis-server"
    server.symlink_to(program)
    return [server]
