"""Actions of signal handlers, run in a thread: the code that a handler interrupts may hold the lock that it needs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue


@contextmanager
def from_signals(action: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Yield a function that a handler may call inside the block: a thread of its own then runs `action`, once."""
    calls: SimpleQueue[bool] = SimpleQueue()  # a handler may call its `put`

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
