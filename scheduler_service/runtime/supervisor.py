"""Keep a fixed list of programs running on this machine: ordered start, restart, ordered stop.

Owns their processes and their output, and knows nothing of their work. Promises that a part never runs twice at once. A
part that dies is restarted, after 0.2 s doubling to 10 s; every change of a part is one line. The first SIGINT, SIGTERM
or SIGHUP stops all parts in reverse order, the next kills them. No process is left behind, on Linux not even when this
one is killed. One thread does it all, the main one, as signals and `children` require.
"""

import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from scheduler_service.runtime.children import tethered
from scheduler_service.runtime.console import Console

State = Literal["idle", "starting", "ready", "waiting", "stopping", "stopped", "done"]

FIRST_DELAY: Final = 0.2
LONGEST_DELAY: Final = 10.0
PROVEN_AFTER: Final = 30.0
READY_POLL: Final = 0.05
HURRY_AFTER: Final = 0.5
LONGEST_LINE: Final = 65_536
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Part:
    """A program to keep running. The next part first starts once `ready` returns true.

    `ready` is called often and must answer within a second. A part that runs `once` is finished when it exits with 0,
    and restarted otherwise. `pause_signal` asks it to begin nothing new, as soon as a stop is requested and before any
    part is stopped.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    ready: Callable[[], bool] | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout: float = 10.0
    once: bool = False
    pause_signal: signal.Signals | None = None
    umask: int = -1


@dataclass(slots=True)
class _Kept:
    """A part and the state of its present process."""

    part: Part
    state: State = "idle"
    process: subprocess.Popen[bytes] | None = None
    since: float = 0.0
    deadline: float = 0.0
    delay: float = FIRST_DELAY
    been_ready: bool = False
    pending: bytearray = field(default_factory=bytearray)


def next_delay(delay: float, lived: float) -> tuple[float, float]:
    """The delays before this restart and after the next death, for a part that lived `lived` seconds."""
    now = FIRST_DELAY if lived >= PROVEN_AFTER else delay
    return now, min(LONGEST_DELAY, now * 2)


class Supervisor:
    """Runs its parts until a signal; calls `on_change(name, state, pid)` at every change."""

    def __init__(
        self,
        parts: Sequence[Part],
        console: Console,
        on_change: Callable[[str, State, int | None], None] = lambda name, state, pid: None,
    ) -> None:
        self._kept = [_Kept(part) for part in parts]
        self._console = console
        self._on_change = on_change
        self._selector = selectors.DefaultSelector()
        self._stop_asked_at: float | None = None

    def run(self) -> None:
        """Start everything; return when everything has stopped."""
        with self._signals():
            while not self._step(time.monotonic()):
                self._listen(self._pause(time.monotonic()))
        self._selector.close()

    def stop(self) -> None:
        """Stop all parts in reverse order; kill them all if called again a moment later."""
        now = time.monotonic()
        if self._stop_asked_at is None:
            self._stop_asked_at = now
            for kept in self._kept:
                if kept.process is None and kept.state != "done":
                    kept.state = "stopped"
                elif kept.process is not None and kept.part.pause_signal and kept.been_ready:
                    with suppress(ProcessLookupError):
                        kept.process.send_signal(kept.part.pause_signal)
        elif now - self._stop_asked_at > HURRY_AFTER:  # `timeout` and some shells send one signal twice
            for kept in reversed(self._kept):
                if kept.process is not None:
                    kept.deadline = now + kept.part.stop_timeout
                    self._change(kept, "stopping", "killed")
                    _kill_group(kept.process)

    def _step(self, now: float) -> bool:
        """Do all that is due; return whether everything has stopped."""
        self._reap(now)
        if self._stop_asked_at is None:
            self._ask_ready(now)
            self._start_due(now)
            return False
        self._stop_next(now)
        return all(kept.process is None for kept in self._kept)

    def _start_due(self, now: float) -> None:
        for kept in self._kept:
            if kept.state == "idle" or (kept.state == "waiting" and now >= kept.deadline):
                self._start(kept, now)
            if not kept.been_ready:
                break

    def _start(self, kept: _Kept, now: float) -> None:
        try:
            process = subprocess.Popen(
                tethered(list(kept.part.argv)),
                env=dict(kept.part.env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=kept.part.umask,
            )
        except OSError as exc:
            self._wait_to_restart(kept, now, 0.0, f"could not be started: {exc}")
            return
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout, selectors.EVENT_READ, kept)
        kept.process, kept.since = process, now
        self._change(kept, "starting", f"started, pid {process.pid}")

    def _ask_ready(self, now: float) -> None:
        for kept in self._kept:
            if kept.state == "starting" and (kept.part.ready is None or kept.part.ready()):
                kept.been_ready = True
                self._change(kept, "ready", f"ready after {now - kept.since:.1f} s" if kept.part.ready else None)

    def _reap(self, now: float) -> None:
        for kept in self._kept:
            process = kept.process
            if process is None or process.poll() is None:
                continue
            _kill_group(process)  # processes that it started must not outlive it
            self._drain(kept, process)
            kept.process = None
            how = _how_it_ended(process.returncode)
            if self._stop_asked_at is not None:
                self._change(kept, "stopped", f"stopped ({how})")
            elif kept.part.once and process.returncode == 0:
                kept.been_ready = True
                self._change(kept, "done", "done")
            else:
                self._wait_to_restart(kept, now, now - kept.since, how)

    def _wait_to_restart(self, kept: _Kept, now: float, lived: float, how: str) -> None:
        wait, kept.delay = next_delay(kept.delay, lived)
        kept.deadline = now + wait
        self._change(kept, "waiting", f"{how}; starting again in {wait:.1f} s")

    def _stop_next(self, now: float) -> None:
        running = [kept for kept in self._kept if kept.process is not None]
        if not running:
            return
        kept = running[-1]
        assert kept.process is not None
        if kept.state != "stopping":
            kept.deadline = now + kept.part.stop_timeout
            self._change(kept, "stopping", "stopping")
            with suppress(ProcessLookupError):
                kept.process.send_signal(kept.part.stop_signal)
        elif now >= kept.deadline:
            kept.deadline = now + kept.part.stop_timeout
            self._change(kept, "stopping", f"killed: it did not stop within {kept.part.stop_timeout:g} s")
            _kill_group(kept.process)

    def _pause(self, now: float) -> float:
        """The time until something is due, unless a signal or output comes first."""
        if any(kept.state == "starting" for kept in self._kept):
            return READY_POLL
        timed = [kept.deadline - now for kept in self._kept if kept.state in ("waiting", "stopping")]
        return max(0.0, min(timed)) if timed else 1.0

    def _listen(self, pause: float) -> None:
        for key, _ in self._selector.select(pause):
            if isinstance(key.data, _Kept):
                self._read(key.data, key.fd)
            else:
                self._hear_signals(key.data)
        if self._console.broken.is_set() and self._stop_asked_at is None:
            self.stop()  # the process that reads our output is gone

    def _hear_signals(self, ear: socket.socket) -> None:
        for number in ear.recv(4096):
            if number in STOP_SIGNALS:
                self.stop()

    def _read(self, kept: _Kept, fd: int) -> bool:
        """Pass on a part's output; return whether there may be more now."""
        try:
            chunk = os.read(fd, 65_536)
        except BlockingIOError:
            return False
        kept.pending += chunk
        *lines, rest = kept.pending.split(b"\n")
        if len(rest) > LONGEST_LINE or (rest and not chunk):
            lines, rest = [*lines, rest], bytearray()
        kept.pending = rest
        for line in lines:
            self._console.line(kept.part.name, line.decode(errors="replace").rstrip("\r"))
        if not chunk:
            with suppress(KeyError):
                self._selector.unregister(fd)
        return bool(chunk)

    def _drain(self, kept: _Kept, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        fd = process.stdout.fileno()
        while self._read(kept, fd):
            pass
        with suppress(KeyError):
            self._selector.unregister(fd)
        process.stdout.close()

    def _change(self, kept: _Kept, state: State, text: str | None) -> None:
        kept.state = state
        if text:
            self._console.status(kept.part.name, text)
        self._on_change(kept.part.name, state, kept.process.pid if kept.process else None)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Receive signals, including a child's death, as bytes of a socket that the loop waits on."""
        mouth, ear = socket.socketpair()
        mouth.setblocking(False)
        numbers = [n for n in STOP_SIGNALS if signal.getsignal(n) != signal.SIG_IGN]
        before = {n: signal.signal(n, lambda number, frame: None) for n in [*numbers, signal.SIGCHLD]}
        earlier = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
        self._selector.register(ear, selectors.EVENT_READ, ear)
        try:
            yield
        finally:
            signal.set_wakeup_fd(earlier)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._selector.unregister(ear)
            mouth.close()
            ear.close()
            self._kill_all()

    def _kill_all(self) -> None:
        """Kill everything that is left, in case the loop itself failed."""
        for kept in self._kept:
            if kept.process is not None:
                _kill_group(kept.process)
                kept.process.wait()
                kept.process.stdout.close() if kept.process.stdout else None


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS answers EPERM for a group of zombies
        os.killpg(process.pid, signal.SIGKILL)


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"ended by signal {-status}"
