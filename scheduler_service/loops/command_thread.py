"""A thread that executes commands one after the other, in the order in which the loop decided them.

Promises that none is skipped and none passes another. A command that breaks ends the leadership, not the thread alone.
It never decides what a command is for.
"""

import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

log = structlog.get_logger(__name__)

E = TypeVar("E")

_RESTS, _LONGEST_REST_SECONDS = 3, 0.05


class CommandThread(Generic[E]):
    """A first-in, first-out worker; an error that `carry_out` lets through ends the leadership through `on_crash`.

    A batch that `may_wait` is executed after a rest, as long as the last batch took times three, so that others join
    it. `on_done` is called after each batch, `on_start` before the first one.
    """

    def __init__(
        self,
        name: str,
        carry_out: Callable[[list[E]], None],
        on_crash: Callable[[BaseException], None],
        may_wait: Callable[[list[E]], bool] = lambda _: False,
        on_done: Callable[[], None] = lambda: None,
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        self._queue: queue.Queue[E | None] = queue.Queue()
        self._carry_out = carry_out
        self._on_crash = on_crash
        self._may_wait = may_wait
        self._on_done = on_done
        self._on_start = on_start
        self._rests_until = 0.0
        self.done = self.handed = 0
        self._finished = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, command: E) -> None:
        """Queue one command; only one thread may call this."""
        self.handed += 1
        self._queue.put(command)

    def backlog(self) -> int:
        """The number of commands that are queued or being executed."""
        return self.handed - self.done

    def has_more(self) -> bool:
        """Whether commands are queued behind those being executed."""
        return not self._queue.empty()

    def wait_until_done(self, number: int, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the first `number` commands; return whether they are done."""
        if self.done >= number:
            return True
        with self._finished:
            return self._finished.wait_for(lambda: self.done >= number, timeout)

    def stop(self, timeout: float) -> None:
        """Stop after the commands being executed; queued commands are dropped."""
        self._queue.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            self._on_start()
            while (batch := self._next()) is not None:
                began = time.monotonic()
                self._carry_out(batch)
                ended = time.monotonic()
                self._rests_until = ended + min(_RESTS * (ended - began), _LONGEST_REST_SECONDS)
                with self._finished:
                    self.done += len(batch)
                    self._finished.notify_all()
                self._on_done()
        except BaseException as exc:  # noqa: BLE001 - whatever it is, the leader must not go on without this thread
            self._on_crash(exc)

    def _next(self) -> list[E] | None:
        first = self._queue.get()
        if first is None:
            return None
        batch = [first]
        while len(batch) < 1000:
            rest = self._rests_until - time.monotonic() if self._may_wait(batch) else 0
            try:
                command = self._queue.get(timeout=rest) if rest > 0 else self._queue.get_nowait()
            except queue.Empty:
                break
            if command is None:
                return None
            batch.append(command)
        return batch
