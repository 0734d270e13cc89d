"""A thread that does one thing again and again until it is stopped, and never dies in silence."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable


class Repeating(ABC):
    """`_once` is called until `stop`; an error that it lets through ends the leadership by `on_crash`.

    `_once` waits by `_stopped.wait`, so that a stop is heard. `at_end` gives back what the thread holds.
    """

    def __init__(
        self, name: str, on_crash: Callable[[BaseException], None], at_end: Callable[[], None] = lambda: None
    ) -> None:
        self._on_crash = on_crash
        self._at_end_of_thread = at_end
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End after what is in hand."""
        self._stopped.set()
        self._thread.join(timeout)

    @abstractmethod
    def _once(self) -> None:
        """One round."""

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._once()
        except BaseException as exc:  # noqa: BLE001 - whatever it is, the leader must not go on without this thread
            self._on_crash(exc)
        finally:
            self._at_end_of_thread()
