"""Progress of long work: a bar or a spinner on stderr if that is a terminal, otherwise nothing."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


def shown() -> bool:
    """Whether stderr is a terminal that can draw; stdout stays clean for pipes."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def spinner(title: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with the elapsed time while the block runs; call the yielded function to change the text."""
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
    """Yield the items and show how many there were so far."""
    with spinner(title) as report:
        for number, item in enumerate(items, start=1):
            if number % 100 == 0:
                report(f"{title}: {number}")
            yield item
