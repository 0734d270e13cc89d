"""The command line `itinerary`: processes of this machine, and the API's jobs and runs from a terminal.

Exit status: 0 done, 1 the operation failed, 2 wrong usage. An error is one line on stderr that says what to do.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from scheduler_service.runtime.collector import collect_rarely


def main() -> None:
    """Run the console entry; imports only what the command needs."""
    collect_rarely()
    try:
        from scheduler_service.cli.program import run
    except ImportError:
        error = _package_error()
        if error is None:
            raise
        print(f"itinerary: {error}", file=sys.stderr)
        sys.exit(1)
    run()


def _package_error() -> str | None:
    """Return an error if the package `itinerary` is missing, or is PyPI's unrelated package of that name."""
    spec = find_spec("itinerary")
    if spec is None or spec.origin is None:
        return "the package `itinerary` is missing; run `pip install celery-itinerary` (in a checkout: ./workers)"
    if '"attach"' in Path(spec.origin).read_text("utf-8"):
        return None
    return (
        f"{spec.origin} is not of celery-itinerary; run `pip uninstall itinerary`, then"
        " `pip install --force-reinstall --no-deps celery-itinerary`"
    )
