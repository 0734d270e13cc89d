"""The interpreter of a user's app: ours, or another one, where its own packages are.

Promises: a named interpreter is examined first; what is missing there is said with the command that installs it.
"""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.wire import PROTOCOL
from itinerary.version import VERSION

ELSEWHERE: Final = "where the app has an environment of its own, name its interpreter by --python PATH, or run there:"
_PATIENCE: Final = 60.0
# Without the working directory, whose packages may have the same names.
_PROBE: Final = """
import json, sys
sys.path[:] = [entry for entry in sys.path if entry]
found = {"python": sys.version_info[:2], "itinerary": None, "protocol": None, "celery": None}
try:
    import celery
    found["celery"] = celery.__version__
except ImportError:
    pass
try:
    from itinerary.version import VERSION
    from itinerary.protocol.wire import PROTOCOL
    found["itinerary"], found["protocol"] = VERSION, PROTOCOL
except ImportError:
    pass
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class AppPython:
    """`argv` starts the interpreter so that no package of the working directory takes precedence over ours."""

    argv: tuple[str, ...]
    ours: bool = False

    def command(self, *arguments: str) -> list[str]:
        """Return the command of `python -m itinerary` with these arguments."""
        return [*self.argv, "-m", "itinerary", *arguments]


def own_python() -> AppPython:
    """Return the interpreter of this process."""
    return AppPython((sys.executable, "-P"), ours=True)


def app_python(path: str | None, option: str) -> AppPython:
    """Return the interpreter at `path`, or ours if none is named; BadValue of `option` where it does not serve."""
    if path is None:
        return own_python()
    given = os.path.abspath(os.path.expanduser(path))
    if Path(given).is_dir():
        raise BadValue(option, path, f"name the interpreter in it: {Path(path) / 'bin' / 'python'}")
    # The link itself: what it points to is the interpreter without the environment.
    found = _probed(given, path, option)
    major, minor = found["python"]
    if (major, minor) < (3, 10):
        raise BadValue(option, path, f"it is Python {major}.{minor}: celery-itinerary needs 3.10 or later")
    _check_packages(found, given, path, option)
    # Python 3.10 has no -P.
    return AppPython((given, "-P") if (major, minor) >= (3, 11) else (given,))


def _probed(given: str, path: str, option: str) -> dict[str, Any]:
    try:
        ended = subprocess.run(
            [given, "-c", _PROBE], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE
        )
        found: dict[str, Any] = json.loads(ended.stdout)
    except (OSError, subprocess.TimeoutExpired) as exc:
        why = exc.strerror if isinstance(exc, OSError) else f"it did not answer within {_PATIENCE:g} s"
        raise BadValue(option, path, f"give the Python of your app's environment ({why})") from exc
    except ValueError as exc:
        raise BadValue(option, path, "it is not a Python interpreter: give the one of your app's environment") from exc
    return found


def _check_packages(found: dict[str, Any], given: str, path: str, option: str) -> None:
    install = f"{shlex.quote(given)} -m pip install celery-itinerary=={VERSION} (in a checkout: ./workers)"
    if found["itinerary"] is None:
        raise BadValue(option, path, f"its environment has no celery-itinerary; run {install}")
    if not PROTOCOL - 1 <= found["protocol"] <= PROTOCOL:
        theirs = f"it has celery-itinerary {found['itinerary']}, which this service ({VERSION}) does not understand"
        raise BadValue(option, path, f"{theirs}; run {install}")
    if found["celery"] is None:
        raise BadValue(
            option, path, f"its environment has no celery; run {shlex.quote(given)} -m pip install 'celery[redis]'"
        )
