"""Virtual environments of a test's own, each made from a hash lock: what somebody has who installs our wheels.

What takes long to build is built once a run, for all of its processes.
"""

import fcntl
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.processes import REPOSITORY

LONGEST_SECONDS = 600
DEPLOY = REPOSITORY / "deploy"


class CannotInstall(Exception):
    """What the installer said."""


def skip_without_a_registry(exc: CannotInstall) -> NoReturn:
    """Skip the test where no registry gives what is needed; a package that is not the locked one is a failure."""
    if re.search("do not match the hashes|hash mismatch", str(exc), re.IGNORECASE):
        raise exc
    pytest.skip(f"no registry gives what this needs: {str(exc).strip().splitlines()[-1]}")


class Environment:
    """The environment in `home`; `build` makes it, for one interpreter and exactly the packages of one lock."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.python = str(home / "bin" / "python")
        self._uv = shutil.which("uv")

    def build(self, interpreter: str, lock: str) -> None:
        """Make it with what deploy/`lock` names."""
        make = [self._uv, "venv", "--python", interpreter] if self._uv else [interpreter, "-m", "venv"]
        _run([*make, str(self.home)])
        self._install("--require-hashes", "--only-binary", ":all:", "-r", str(DEPLOY / lock))

    def install_wheel(self, wheel: Path, *, alone: bool = False) -> None:
        """The wheel, from no registry: what is there already must be all that it needs, unless it comes `alone`."""
        self._install("--no-index", *(["--no-deps"] if alone else []), str(wheel))

    def _install(self, *what: str) -> None:
        if self._uv:
            return _run([self._uv, "pip", "install", "--quiet", "--python", self.python, *what])
        pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        return _run([*pip, "--retries", "1", "--timeout", "20", *what])


@dataclass(frozen=True)
class Wheels:
    """Those of a release."""

    small: Path
    server: Path


def built_release(factory: pytest.TempPathFactory) -> Path:
    """The folder with all that a release publishes, built of this checkout; a registry is needed, for the tools."""
    return _once(factory, "release", _build_release) / "dist"


def _build_release(home: Path) -> None:
    builder = Environment(home / "builder")
    builder.build(sys.executable, "release.lock")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DEPLOY))
        import release  # type: ignore[import-not-found]

        release.build_all(builder.python, _tracked_files(), home / "dist")


def _tracked_files() -> bytes:
    """The files that git knows, as they are now, as a tar archive."""
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name in listed.splitlines():
            if (REPOSITORY / name).exists():
                archive.add(REPOSITORY / name, name)
    return content.getvalue()


def wheels_in(dist: Path) -> Wheels:
    """Both wheels of a release."""
    (small,), (server,) = dist.glob("celery_itinerary-*.whl"), dist.glob("itinerary_server-*.whl")
    return Wheels(small, server)


def with_small_wheel(factory: pytest.TempPathFactory, interpreter: str, lock: str) -> Environment:
    """An environment of this lock, with the small wheel beside it."""
    small = wheels_in(built_release(factory)).small

    def build(home: Path) -> None:
        environment = Environment(home)
        environment.build(interpreter, lock)
        environment.install_wheel(small)

    name = f"{Path(interpreter).name}-{lock.removesuffix('.lock')}"
    return Environment(_once(factory, name, build))


def _once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], None]) -> Path:
    """The folder that `build` fills, in the first of this run's processes that asks; the others wait for it."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    home, complete = base / name, base / f"{name}.complete"
    with (base / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(home, ignore_errors=True)  # another process failed here
            build(home)
            complete.touch()
    return home


def of_lock(factory: pytest.TempPathFactory, lock: str) -> Environment:
    """An environment of this lock alone."""
    return Environment(
        _once(factory, lock.removesuffix(".lock"), lambda home: Environment(home).build(sys.executable, lock))
    )


def interpreter_of(version: str) -> str | None:
    """An interpreter of this version, such as 3.10: this one, on PATH, or pyenv's; None where there is none."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    places = [shutil.which(f"python{version}"), *map(str, pyenv.glob(f"versions/{version}.*/bin/python{version}"))]
    return next((place for place in places if place and _runs(place)), None)


def _runs(interpreter: str) -> bool:
    """A shim of a version manager may be there without the interpreter."""
    return subprocess.run([interpreter, "-c", "import venv"], capture_output=True).returncode == 0


def _run(command: list[str]) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LONGEST_SECONDS)
    except subprocess.TimeoutExpired as exc:
        raise CannotInstall(f"{command} took longer than {LONGEST_SECONDS} s") from exc
    if ended.returncode:
        raise CannotInstall(f"{command} ended with {ended.returncode}\n{ended.stdout}{ended.stderr}")
