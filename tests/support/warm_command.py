"""`python -m MODULE` as a process of its own that need not import first: a fork of one that has imported its modules.

Half of what a command, a leader or a worker uses until it does something is imports. What a start itself does
(encodings, options of Python) is not tested this way. Linux only: the tests adopt the fork of a fork as their own
child.
"""

import atexit
import ctypes
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any

from scheduler_service.runtime.children import tethered
from tests.support.processes import REPOSITORY, Child, Process, project_env

COMMAND_LINE = "scheduler_service.cli"
OF_WORKERS = ("celery", "itinerary")
"""The modules that run where the service is not installed: their forks have imported nothing of it."""
_MOST = 1 << 20
_DEATH_SIGNAL = 1
_ADOPTS = 36


class Forked:
    """A child of this process that another process forked; to be used like one of `subprocess`."""

    def __init__(self, pid: int, stdout: IO[Any] | None = None) -> None:
        self.pid, self.stdout = pid, stdout
        self.returncode: int | None = None
        self._one = threading.Lock()
        self._ended = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Its exit status, once it has ended."""
        with self._one:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
                    os.close(self._ended)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status; subprocess.TimeoutExpired if it takes longer."""
        if self.poll() is None:
            with selectors.PollSelector() as selector:
                selector.register(self._ended, selectors.EVENT_READ)
                selector.select(timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send `number`, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL, if it still runs."""
        self.send_signal(signal.SIGKILL)


class Forking:
    """Asks another process, at the other end of `line`, for forks, and adopts them."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._turn = threading.Lock()

    def start(
        self, module: str, words: Sequence[str], env: Mapping[str, str], *streams: int, cwd: str = str(REPOSITORY)
    ) -> int:
        """Start `python -m module words` with these three streams as the leader of a session; its pid."""
        os.umask(mask := os.umask(0o077))
        asked = json.dumps([module, list(words), dict(env), os.getpid(), cwd, mask]).encode()
        with self._turn, _adopting():
            try:
                socket.send_fds(self._line, [asked], streams)
                pid = int(self._line.recv(64))
                self._line.recv(64)  # the process between is gone
            except BaseException:  # such as the end of the test's time: its answer is not for the next who asks
                self.close()
                raise
        return pid

    def close(self) -> None:
        """End the other process."""
        self._line.close()


def forking_this() -> Forking:
    """A fork of this process, as it is now, that forks."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        _run(*_serve(theirs))
    theirs.close()
    return Forking(ours)


class WarmPython(Forking):
    """The process that has imported what `imports` names, and forks."""

    def __init__(self, imports: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(ours)
        argv = [sys.executable, "-m", "tests.support.warm_command", str(theirs.fileno()), imports]
        self._process = subprocess.Popen(
            tethered(argv), env=project_env(), cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )  # fmt: skip
        theirs.close()
        atexit.register(self.close)

    def close(self) -> None:
        """End it; the next who asks gets another."""
        warm_python.cache_clear()
        super().close()
        self._process.kill()
        self._process.wait()


@cache
def warm_python(imports: str) -> WarmPython:
    """That of this test process, started when first asked for."""
    return WarmPython(imports)


class WarmChild(Child):
    """A Child that runs `python -m MODULE WORDS`; cold where a fork would not do."""

    def __init__(self, module: str, *words: str, env: Mapping[str, str], cwd: Path | str = REPOSITORY) -> None:
        self._module, self._words = module, words
        super().__init__([sys.executable, "-m", module, *words], env=env, cwd=cwd)

    def _launch(
        self, env: Mapping[str, str] | None, cwd: Path | str, death_signal: signal.Signals, user: str | None
    ) -> Process:
        if env is None or not is_like_any(env) or "gevent" in self._words:  # which patches what others import
            return super()._launch(env, cwd, death_signal, user)
        read, write = os.pipe()
        stdout = open(read, encoding="utf-8", errors="replace")  # noqa: SIM115 - its reader closes it
        with open(os.devnull) as nothing, open(write, "wb"):
            return Forked(
                warm_python("worker" if self._module in OF_WORKERS else "service").start(
                    self._module, self._words, env, nothing.fileno(), write, write, cwd=str(cwd)
                ),
                stdout,
            )


class ServiceChild(WarmChild):
    """A Child that runs the command line."""

    def __init__(self, *words: str, env: Mapping[str, str]) -> None:
        super().__init__(COMMAND_LINE, *words, env=env)


def is_like_any(env: Mapping[str, str]) -> bool:
    """Whether a fork can do: nothing in this environment decides while Python starts and imports."""
    decisive = ("PYTHON", "LC_", "LANG", "OTEL_")
    return sys.platform == "linux" and {name: value for name, value in env.items() if name.startswith(decisive)} == {
        name: value for name, value in project_env().items() if name.startswith(decisive)
    }


def start_service(words: Sequence[str], env: Mapping[str, str], *streams: int) -> Process:
    """Start the command line with these three streams."""
    if is_like_any(env) and "--show-completion" not in words:  # the shell is found among the parents
        return Forked(warm_python("service").start(COMMAND_LINE, words, env, *streams))
    stdin, stdout, stderr = streams
    argv = [sys.executable, "-m", COMMAND_LINE, *words]
    return subprocess.Popen(argv, env=dict(env), cwd=REPOSITORY, stdin=stdin, stdout=stdout, stderr=stderr)


@contextmanager
def _adopting() -> Iterator[None]:
    """What is forked further down becomes a child of this process once the one between has ended."""
    libc = ctypes.CDLL(None)
    libc.prctl(_ADOPTS, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_ADOPTS, 0, 0, 0, 0)


def _serve(line: socket.socket) -> tuple[str, list[str]]:
    """Fork for each request, until the other end is closed; returns in the forks alone, with what they are to run."""
    while True:
        asked, descriptors, _, _ = socket.recv_fds(line, _MOST, 3)
        if not asked:
            os._exit(0)
        between = os.fork()
        if between == 0:
            between = os.getpid()
            pid = os.fork()
            if pid:
                line.send(str(pid).encode())
                os._exit(0)
            line.close()
            module, words, env, parent, cwd, mask = json.loads(asked)
            os.chdir(cwd)
            os.umask(mask)
            _become(env, descriptors, between, parent)
            return module, words
        for descriptor in descriptors:
            os.close(descriptor)
        os.waitpid(between, 0)
        line.send(b"adopted")


def _become(env: dict[str, str], descriptors: list[int], between: int, parent: int) -> None:
    while os.getppid() == between:
        time.sleep(0.0005)
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)  # it dies with the process that asked
    if os.getppid() != parent:
        os._exit(1)
    os.setsid()
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
    for descriptor in descriptors:
        os.close(descriptor)
    sys.stdin = open(0, encoding=sys.stdin.encoding, closefd=False)  # noqa: SIM115 - as Python opens them itself
    sys.stdout = open(1, "w", encoding=sys.stdout.encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=sys.stderr.encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(env)
    time.tzset()


def _run(module: str, words: list[str]) -> None:
    """Run the module, then end without what Python does last: to take all modules apart would copy them first."""
    status = 1

    def end() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    atexit.register(end)
    sys.argv[1:] = words
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        raise


def _import_service() -> None:
    from itinerary.client.sync import Client
    from scheduler_service.api.http import serve  # noqa: F401
    from scheduler_service.bootstrap import parts  # noqa: F401
    from scheduler_service.cli import doctor, output, program  # noqa: F401
    from scheduler_service.jobs_as_code import reading, writing  # noqa: F401
    from scheduler_service.migrating import beat_moving  # noqa: F401
    from tests.support import crash_points  # noqa: F401

    Client("http://127.0.0.1:9").close()  # what it imports when it is made


def _import_worker() -> None:
    import kombu.transport.redis  # noqa: F401

    from itinerary import command_line  # noqa: F401
    from itinerary.worker import attach, celery_app  # noqa: F401


if __name__ == "__main__":
    {"service": _import_service, "worker": _import_worker}[sys.argv[2]]()
    gc.freeze()
    _run(*_serve(socket.socket(fileno=int(sys.argv[1]))))
