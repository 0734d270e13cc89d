"""Progress of long work: a bar or a spinner on stderr where that is a terminal, nothing where it is not."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


def shown() -> bool:
    """Whether anybody looks: stdout stays clean for pipes, and a dumb terminal cannot draw."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def spinner(title: str) -> Iterator[Callable[[str], None]]:
    """A spinner with the time that has passed, while the block runs; call what it gives to change the words."""
    if not shown():
        yield lambda _title: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True, markup=False), transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda new: progress.update(task, description=new)


def counted(items: Iterable[T], title: str) -> Iterator[T]:
    """The items, with how many there were so far."""
    with spinner(title) as report:
        for number, item in enumerate(items, start=1):
            if number % 100 == 0:
                report(f"{title}: {number}")
            yield item
