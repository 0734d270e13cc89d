"""Real child processes and waiting for what they do.

Owns: free ports, polling with a deadline, children that are killed when the test process dies.
"""

import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Protocol, Self, TypeVar

from scheduler_service.runtime.children import tethered

T = TypeVar("T")

PATIENCE: Final = 180.0
"""How many seconds a test waits for what must come. Where it comes, they cost nothing, however slow the machine."""

REPOSITORY = Path(__file__).resolve().parents[2]
MANUAL = REPOSITORY / "scheduler_service" / "manual"
# Where the two packages and the tests are imported from.
CHECKOUT = f"{REPOSITORY}:{REPOSITORY / 'workers'}"
# Below the ports that Linux and macOS give to outgoing connections.
_NEVER_OUTGOING = range(20_000, 32_000)
WARM_STOP = PATIENCE
_random = random.SystemRandom()
# Bound for datagrams, each so far above the port that it stands for, where `up` holds none: so that no other process of
# tests is given a port before its server starts, or while that is killed. The oldest go before too many files are open.
_MARK_ABOVE = len(_NEVER_OUTGOING)
_given: deque[int] = deque()
_MARKS_KEPT = 200


def free_port() -> int:
    """A loopback port that nobody listens on, and that nobody else is given, neither by this nor by the system."""
    while True:
        port = _random.choice(_NEVER_OUTGOING)
        mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with socket.socket() as probe, suppress(OSError):
            mark.bind(("127.0.0.1", port + _MARK_ABOVE))
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            _given.append(mark.detach())
            if len(_given) > _MARKS_KEPT:
                os.close(_given.popleft())
            return port
        mark.close()


def wait_until(
    predicate: Callable[[], T],
    timeout: float = PATIENCE,
    what: str | Callable[[], str] = "the condition",
    every: float = 0.02,
) -> T:
    """The first true answer of `predicate`, asked every `every` seconds; AssertionError after `timeout`.

    `what` names what is waited for; a callable is asked at the end, so that it can tell what was seen last.
    """
    deadline = time.monotonic() + timeout
    never_set = threading.Event()
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            named = what() if callable(what) else what
            raise AssertionError(f"waited {timeout:g} s for {named}; last answer: {answer!r}")
        never_set.wait(every)


def alive(pid: int) -> bool:
    """Whether a process of this pid runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not stat.parent.parent.is_dir()


def project_env(**settings: str) -> dict[str, str]:
    """The environment of a child of ours: no foreign ITINERARY_ setting, the repository importable.

    No PYTHON variable either: PYTHONUNBUFFERED of a machine once hid that a command kept its lines to itself.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ITINERARY_", "PYTHON"))}
    env["PYTHONPATH"] = CHECKOUT
    return env | settings


class Process(Protocol):
    """What a Child uses of a process of `subprocess`."""

    pid: int
    stdout: IO[str] | None

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, number: int, /) -> None: ...

    def kill(self) -> None: ...


class Child(AbstractContextManager["Child"]):
    """A real child process in its own group, with its output kept in `lines`; ended with the `with` block."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | str = REPOSITORY,
        death_signal: signal.Signals = signal.SIGKILL,
        user: str | None = None,
    ) -> None:
        self.argv = list(argv)
        self.lines: list[str] = []
        self._process = self._launch(env, cwd, death_signal, user)
        self._reader = threading.Thread(target=self._read, daemon=True, name=f"output of {self.pid}")
        self._reader.start()

    def _launch(
        self, env: Mapping[str, str] | None, cwd: Path | str, death_signal: signal.Signals, user: str | None
    ) -> Process:
        return subprocess.Popen(
            tethered(self.argv, death_signal, user),
            env=None if env is None else dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
            errors="replace",
        )

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            self.lines.extend(iter(stream.readline, ""))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def wait(self, timeout: float = PATIENCE) -> int:
        """The exit status once it has ended by itself; AssertionError with its output after `timeout`."""
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.argv} still runs after {timeout:g} s:\n{self.output}") from None
        self._reader.join(PATIENCE)
        return status

    def wait_for_line(self, text: str, timeout: float = PATIENCE) -> str:
        """The first line that holds `text`, once it is printed; AssertionError where the process ends without it."""

        def printed() -> str:
            ended = not self._reader.is_alive()
            found = next((line for line in list(self.lines) if text in line), "")
            if ended and not found:
                raise AssertionError(f"{self.argv} ended without {text!r}:\n{self.output}")
            return found

        return wait_until(printed, timeout, lambda: f"{text!r} in the output of {self.argv}:\n{self.output}")

    def signal(self, number: signal.Signals) -> None:
        """Send `number` to the process alone, if it still runs."""
        self._process.send_signal(number)

    def stop(self, timeout: float = PATIENCE) -> int:
        """SIGTERM, then its exit status; killed and reported when that takes longer than `timeout`."""
        self.signal(signal.SIGTERM)
        try:
            return self.wait(timeout)
        except AssertionError:
            self.kill()
            raise

    def kill(self) -> None:
        """SIGKILL to it and its whole group, reaped."""
        with suppress(ProcessLookupError):  # the group ended by itself
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(PATIENCE)

    def kill_alone(self) -> None:
        """SIGKILL to the process itself, not its group: what an out-of-memory killer does."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
