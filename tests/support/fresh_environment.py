"""Virtual environments of a test's own, each made from a hash lock: what somebody has who installs our wheels."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

LONGEST_SECONDS = 300


class CannotInstall(Exception):
    """What the installer said."""


class Environment:
    """The environment in `home`, for one interpreter and exactly the packages of one lock."""

    def __init__(self, home: Path, interpreter: str, lock: Path) -> None:
        self.home = home
        self.python = str(home / "bin" / "python")
        self._uv = shutil.which("uv")
        make = [self._uv, "venv", "--python", interpreter] if self._uv else [interpreter, "-m", "venv"]
        _run([*make, str(home)])
        self._install("--require-hashes", "--only-binary", ":all:", "-r", str(lock))

    def install_wheel(self, wheel: Path) -> None:
        """The wheel, from no registry: what is there already must be all that it needs."""
        self._install("--no-index", str(wheel))

    def _install(self, *what: str) -> None:
        if self._uv:
            return _run([self._uv, "pip", "install", "--quiet", "--python", self.python, *what])
        pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        return _run([*pip, "--retries", "1", "--timeout", "20", *what])


def interpreter_of(version: str) -> str | None:
    """An interpreter of this version, such as 3.10: this one, on PATH, or pyenv's; None where there is none."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    places = [shutil.which(f"python{version}"), *map(str, pyenv.glob(f"versions/{version}.*/bin/python{version}"))]
    return next((place for place in places if place and _runs(place)), None)


def _runs(interpreter: str) -> bool:
    """A shim of a version manager may be there without the interpreter."""
    return subprocess.run([interpreter, "-c", "import venv"], capture_output=True, timeout=30).returncode == 0


def _run(command: list[str]) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LONGEST_SECONDS)
    except subprocess.TimeoutExpired as exc:
        raise CannotInstall(f"{command} took longer than {LONGEST_SECONDS} s") from exc
    if ended.returncode:
        raise CannotInstall(f"{command} ended with {ended.returncode}\n{ended.stdout}{ended.stderr}")
