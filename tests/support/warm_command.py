"""The command line as a process of its own that need not import first: a fork of one that has imported it.

Half a second of each start is imports. What a start itself does (encodings, options of Python) is not tested this way.
"""

import atexit
import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache

from scheduler_service.runtime.children import tethered
from tests.support.processes import REPOSITORY, project_env

_MOST = 1 << 20


class WarmCommand:
    """The process that forks; one command at a time."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [sys.executable, "-m", "tests.support.warm_command", str(theirs.fileno())]
        self._process = subprocess.Popen(
            tethered(argv), env=project_env(), cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )  # fmt: skip
        theirs.close()
        atexit.register(self.close)

    def start(self, words: Sequence[str], env: Mapping[str, str], stdin: int, stdout: int, stderr: int) -> None:
        """Start one command with these descriptors; `wait` tells how it ended."""
        asked = json.dumps([list(words), dict(env)]).encode()
        self._line.settimeout(30)
        socket.send_fds(self._line, [asked], [stdin, stdout, stderr])

    def wait(self, timeout: float = 60) -> int:
        """The exit status of what was started, as subprocess counts; killed after `timeout`."""
        self._line.settimeout(timeout)
        pid = int(self._line.recv(64))
        try:
            return int(self._line.recv(64))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            self._line.settimeout(10)
            self._line.recv(64)
            raise AssertionError(f"the command still ran after {timeout:g} s") from None

    def close(self) -> None:
        """End it."""
        self._line.close()
        self._process.wait(10)


@cache
def warm_command() -> WarmCommand:
    """The one of this test process, started when first asked for."""
    return WarmCommand()


def is_like_any(env: Mapping[str, str]) -> bool:
    """Whether nothing in this environment changes how Python itself starts."""
    decisive = ("PYTHON", "LC_", "LANG")
    return {name: value for name, value in env.items() if name.startswith(decisive)} == {
        name: value for name, value in project_env().items() if name.startswith(decisive)
    }


def _serve(line: socket.socket) -> None:
    """Fork for each command, until the other end is closed; returns in the forks alone, as the command itself."""
    while True:
        asked, descriptors, _, _ = socket.recv_fds(line, _MOST, 3)
        if not asked:
            os._exit(0)
        words, env = json.loads(asked)
        pid = os.fork()
        if pid == 0:
            line.close()
            _become(words, env, descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        line.send(str(pid).encode())
        line.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def _become(words: list[str], env: dict[str, str], descriptors: list[int]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # it dies with the one that forked it
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
        os.close(descriptor)
    sys.stdin = open(0, encoding=sys.stdin.encoding, closefd=False)  # noqa: SIM115 - as Python opens them itself
    sys.stdout = open(1, "w", encoding=sys.stdout.encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=sys.stderr.encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv[1:] = words


def _as_main() -> None:
    """Run the command, then end without what Python does last: to take all modules apart would copy them first."""
    status = 1

    def end() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    atexit.register(end)
    try:
        main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        raise


if __name__ == "__main__":
    from itinerary.client.sync import Client
    from scheduler_service.api.http import serve  # noqa: F401
    from scheduler_service.bootstrap import parts  # noqa: F401
    from scheduler_service.cli import doctor, main, output, program  # noqa: F401
    from scheduler_service.jobs_as_code import reading, writing  # noqa: F401
    from scheduler_service.migrating import beat_moving  # noqa: F401

    Client("http://127.0.0.1:9").close()  # what it imports when it is made
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    _as_main()
