"""Two items of work at a time, with results in the order of the items."""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Work like `map`, with a second thread for every other item; its error is raised at that item's turn.

    After an error in this thread, the second thread still works to the end of its items.
    """
    answers: queue.SimpleQueue[R | BaseException] = queue.SimpleQueue()

    def beside() -> None:
        for item in items[1::2]:
            try:
                answers.put(work(item))
            except BaseException as exc:  # noqa: BLE001 - raised in the thread that waits for it
                answers.put(exc)
                return

    if len(items) > 1:
        threading.Thread(target=beside, name="side-by-side", daemon=True).start()
    for place, item in enumerate(items):
        answer = answers.get() if place % 2 else work(item)
        if isinstance(answer, BaseException):
            raise answer
        yield answer
