"""The owner of the installed package `itinerary`: we (celery-itinerary or a checkout), or an unrelated distribution.

PyPI has an unrelated distribution `itinerary`; installing it silently overwrites our files.
"""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import itinerary

_REMEDY: Final = (
    "run `pip uninstall itinerary`, then `pip install --force-reinstall --no-deps celery-itinerary`:"
    " the distribution `itinerary` of PyPI is an unrelated package"
)


def ownership_error() -> str | None:
    """A sentence if another distribution's files are in place of ours, or soon will be; else None."""
    place = Path(itinerary.__file__)
    if "attach" not in itinerary.__all__:
        return f"{place} is not of celery-itinerary; {_REMEDY}"
    try:
        stranger = distribution("itinerary")
    except PackageNotFoundError:
        return None
    if Path(str(stranger.locate_file("itinerary/__init__.py"))).resolve() != place.resolve():
        return None  # a checkout comes first
    return f"itinerary {stranger.version} is installed over celery-itinerary; {_REMEDY}"
