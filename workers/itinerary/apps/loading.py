"""A user's app by its name, `module:attribute` as `celery -A` takes it; an error says what was not found, and where."""

import os
import sys
from types import ModuleType
from typing import Any, Final

from celery import Celery
from celery.app.utils import find_app

from itinerary.protocol.app_errors import first_error, renamed_hint
from itinerary.protocol.errors import BadValue, ItineraryError

FIELD: Final = "MODULE:APP"


def find(place: str) -> Any:
    """The object at `place`; BadValue for a wrong name, ItineraryError where its module raises an error."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return find_app(place)
    except (Exception, SystemExit) as exc:
        cause = exc if _is_missing(place, exc) else first_error(place, exc)
        why = _not_found(place, cause)
        if why is not None:
            raise BadValue(FIELD, place, why) from exc
        message = " ".join(str(cause).split())
        raise ItineraryError(
            f"cannot load the app {place}: {type(cause).__name__}: {message}{renamed_hint(message)}"
        ) from exc


def load_app(place: str) -> Celery:
    """The Celery app at `place`, with its tasks."""
    app = find(place)
    if not isinstance(app, Celery):
        raise BadValue(FIELD, place, f"it names a {type(app).__name__}, not a Celery app")
    try:
        app.loader.import_default_modules()
        app.finalize()
    except (Exception, SystemExit) as exc:
        message = " ".join(str(exc).split())
        raise ItineraryError(
            f"cannot load the app {place}: {type(exc).__name__}: {message}{renamed_hint(message)}"
        ) from exc
    return app


def _not_found(place: str, cause: BaseException) -> str | None:
    """The error and what to do, where the name is wrong; None where the module itself raised."""
    module, _, attribute = place.partition(":")
    if _is_missing(place, cause):
        missing = f"there is no module {getattr(cause, 'name', module)}"
        where = f"in {os.getcwd()} or among the packages of {sys.executable}"
        return f"{missing} {where}; start it in the folder that holds {_top(module)}"
    loaded = sys.modules.get(module)
    if not isinstance(cause, AttributeError) or loaded is None or hasattr(loaded, attribute or "app"):
        return None
    apps = ", ".join(f"{module}:{name}" for name in _apps_in(loaded))
    if attribute:
        return f"the module {module} has no {attribute}; {f'it has {apps}' if apps else _CREATED}"
    return f"the module {module} has no Celery app; name it as `celery -A` does, module:attribute; {_CREATED}"


def _is_missing(place: str, error: BaseException) -> bool:
    """Whether the module of the name is not there, or a package of it."""
    module = place.partition(":")[0]
    return isinstance(error, ModuleNotFoundError) and bool(error.name) and f"{module}.".startswith(f"{error.name}.")


_CREATED: Final = "an app that a function creates must be assigned to a name of its module"


def _top(module: str) -> str:
    name = module.partition(".")[0]
    return f"{name}.py or {name}/"


def _apps_in(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, Celery)]
