"""What a Celery app adopts to run under Itinerary: `itinerary.attach(app)`, and `current_run()` inside its tasks.

Importing it loads nothing else: each name is loaded when it is first used. Needs Redis, not the database. No module
beside this one bears a public name, since importing a module sets it as an attribute here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from itinerary.worker.attach import attach
    from itinerary.worker.current import CurrentRun, RunCancelled, current_run

__all__ = ["CurrentRun", "RunCancelled", "attach", "current_run"]

_HOMES: Final = {
    "CurrentRun": "itinerary.worker.current",
    "RunCancelled": "itinerary.worker.current",
    "attach": "itinerary.worker.attach",
    "current_run": "itinerary.worker.current",
}


if not TYPE_CHECKING:  # else any misspelt name would have a type

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
