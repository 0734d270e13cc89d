"""What a signal's handler may do: nearly nothing, since the code that it interrupts may hold the lock that it needs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue


@contextmanager
def from_signals(action: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Inside, what is given back may be called by a handler: it has a thread of its own carry `action` out, once."""
    calls: SimpleQueue[bool] = SimpleQueue()  # its `put` is one that a handler may call

    def wait() -> None:
        if calls.get():
            action()

    thread = threading.Thread(target=wait, name="from-signals")
    thread.start()
    try:
        yield lambda: calls.put(True)
    finally:
        calls.put(False)
        thread.join()
