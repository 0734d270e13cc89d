"""The reason why an app cannot be loaded, if Celery's own error hides it; standard library only."""

from typing import Final

_RENAMED: Final = ("No module named 'workers'", "module 'workers' has no attribute", "from 'workers'")
_HINT: Final = "; where Itinerary's package is meant, `import workers` is now `import itinerary`"


def first_error(place: str, error: BaseException) -> BaseException:
    """The error of the app's own module at `place`.

    If an attribute is missing anywhere in it, Celery tries to import `module:app` as a module, which fails and hides
    it.
    """
    before = error.__context__
    return before if ":" in place and isinstance(before, AttributeError) else error


def renamed_hint(message: str) -> str:
    """A hint at the package's new name; empty if the message is not about the old one."""
    return _HINT if any(text in message for text in _RENAMED) else ""
