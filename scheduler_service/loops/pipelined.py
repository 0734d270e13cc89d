"""Work that may be done two at a time, told in its order."""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """As `map`, but a second thread works out every other item; what it raises is raised in its place.

    After an error here the second thread goes on to the end of its items.
    """
    answers: queue.SimpleQueue[R | BaseException] = queue.SimpleQueue()

    def beside() -> None:
        for item in items[1::2]:
            try:
                answers.put(work(item))
            except BaseException as exc:  # noqa: BLE001 - raised where it is waited for
                answers.put(exc)
                return

    if len(items) > 1:
        threading.Thread(target=beside, name="side-by-side", daemon=True).start()
    for place, item in enumerate(items):
        answer = answers.get() if place % 2 else work(item)
        if isinstance(answer, BaseException):
            raise answer
        yield answer
