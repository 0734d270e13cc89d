"""Check whether a worker can run with the installed releases of Celery, kombu and redis-py.

Promises a sentence that names the installed and the needed releases. Package metadata exclude the same releases, but
not for an installation without dependencies, nor for the pairs that only kombu's extra `redis` names.
"""

import re
from importlib.util import find_spec
from typing import Final

import celery
import kombu
import redis

_VERSION: Final = "__version__"
_CELERY: Final = ((5, 4), (6, 0))
_REDIS_FROM: Final = (5, 0)
_KOMBU_OF_NEW_REDIS: Final = (5, 7)
_NEW_REDIS: Final = (6, 4)


def unfit_releases(*, broker_is_redis: bool) -> str | None:
    """The releases to install instead; None if a worker can run. kombu and redis-py meet in a Redis broker only."""
    of_celery, of_kombu, of_redis = (str(getattr(module, _VERSION)) for module in (celery, kombu, redis))
    if not _CELERY[0] <= number_of(of_celery) < _CELERY[1]:
        return f"Celery {of_celery} is installed; install 'celery>=5.4,<6'"
    if number_of(of_redis) < _REDIS_FROM:
        return f"redis-py {of_redis} is installed; install 'redis>=5'"
    if not broker_is_redis or number_of(of_kombu) < _KOMBU_OF_NEW_REDIS:
        return None
    if number_of(of_redis) < _NEW_REDIS:
        return (
            f"kombu {of_kombu} is installed with redis-py {of_redis}, with which it cannot use Redis; "
            "install 'redis>=6.4' or 'kombu[redis]>=5.4,<5.7'"
        )
    if find_spec("packaging") is None:
        return f"kombu {of_kombu} is installed without its extra redis; install 'kombu[redis]>=5.4,<6'"
    return None


def number_of(version: str) -> tuple[int, ...]:
    """The first two numbers of a release."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
