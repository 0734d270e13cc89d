"""How tasks in gevent's greenlets are told to stop.

Owns the exception classes, which are empty unless gevent is in use: in a worker of its pool it is imported first. Owns
the soft time limit, which Celery does not enforce there, and a repair of kombu's waiting.
"""

import sys
import time
from typing import Any, Final

from celery.exceptions import SoftTimeLimitExceeded
from kombu.utils import functional

_monkey = sys.modules.get("gevent.monkey")
AT_WORK: Final[bool] = _monkey is not None and _monkey.is_module_patched("threading")
_gevent = sys.modules["gevent"] if AT_WORK else None

# Celery kills a revoked task's greenlet, and raises a Timeout in it at the hard time limit.
KILLED: Final[tuple[type[BaseException], ...]] = () if _gevent is None else (_gevent.GreenletExit,)
OUT_OF_TIME: Final[tuple[type[BaseException], ...]] = () if _gevent is None else (_gevent.Timeout,)


def mend_kombu() -> None:
    """Let the other greenlets run while kombu waits for a broker that is away.

    To patch `threading`, gevent inspects every object, which makes Celery's lazy modules load kombu. So kombu keeps the
    `sleep` that is patched a moment later, and stops the whole worker for half a minute at a time.
    """
    if AT_WORK:
        vars(functional)["sleep"] = time.sleep


class SoftLimit:
    """A timer until `lift`: raises SoftTimeLimitExceeded inside the greenlet after this many seconds."""

    def __init__(self, seconds: float | None) -> None:
        self._timer: Any = None
        if _gevent is not None and seconds:
            self._timer = _gevent.Timeout.start_new(seconds, SoftTimeLimitExceeded(seconds))

    def lift(self) -> None:
        """Cancel the limit."""
        if self._timer is not None:
            self._timer.close()
