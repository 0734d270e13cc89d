"""A certificate authority of a test's own, and certificates that it signs."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_KEY: Final = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, and that of the authority which signed it."""

    file: Path
    key: Path
    authority: Path


class Authority:
    """An authority whose files lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.file, self._key = folder / "authority.pem", folder / "authority.key"
        _openssl("-x509", "-subj", "/CN=an authority", "-keyout", self._key, "-out", self.file)

    def certificate(self, name: str) -> Certificate:
        """A certificate of this name, for a server and for a client."""
        file, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        names = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
        _openssl("-x509", *names, "-CA", self.file, "-CAkey", self._key, "-keyout", key, "-out", file)
        key.chmod(0o600)
        return Certificate(file, key, self.file)


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", "req", *_KEY, *words], check=True, capture_output=True)
