"""Why an app cannot be loaded, where Celery's own words hide it; standard library only."""

from typing import Final

_RENAMED: Final = ("No module named 'workers'", "module 'workers' has no attribute", "from 'workers'")
_HINT: Final = "; where Itinerary's package is meant, `import workers` is now `import itinerary`"


def first_error(place: str, error: BaseException) -> BaseException:
    """The error of the app's own module at `place`.

    Where an attribute is missing anywhere in it, Celery imports `module:app` as a module once more, which is none.
    """
    before = error.__context__
    return before if ":" in place and isinstance(before, AttributeError) else error


def renamed_hint(message: str) -> str:
    """What to write in place of the name that this package once had; empty where it is not about that."""
    return _HINT if any(text in message for text in _RENAMED) else ""
