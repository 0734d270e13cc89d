"""A thread that repeats one thing until it is stopped, and never dies unnoticed."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable


class Repeating(ABC):
    """A thread that calls `_once` until `stop`; an error from `_once` ends the leadership through `on_crash`.

    `_once` waits with `_stopped.wait`, so that a stop interrupts it. `at_end` releases the thread's resources.
    """

    def __init__(
        self, name: str, on_crash: Callable[[BaseException], None], at_end: Callable[[], None] = lambda: None
    ) -> None:
        self._on_crash = on_crash
        self._at_end_of_thread = at_end
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Stop after the current round."""
        self._stopped.set()
        self._thread.join(timeout)

    @abstractmethod
    def _once(self) -> None:
        """Do one round."""

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._once()
        except BaseException as exc:  # noqa: BLE001 - whatever it is, the leader must not go on without this thread
            self._on_crash(exc)
        finally:
            self._at_end_of_thread()
