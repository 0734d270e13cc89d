"""Progress: of our own long work, on stderr if that is a terminal; and of a run, as a bar in its line."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

T = TypeVar("T")
_BAR: Final = 20


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


def progress_bar(progress: Mapping[str, Any] | None, *, over: bool = False) -> str | None:
    """Draw a run's progress as a bar with its text; only the text if its total is unknown, or the run completed."""
    from scheduler_service.core.contract.progress_text import percent, progress_text

    if progress is None:
        return None
    done = None if over else percent(progress)
    if done is None:
        return progress_text(progress)
    full = _BAR * done // 100
    return f"{'█' * full}{'░' * (_BAR - full)} {done} %  {progress_text(progress)}"
