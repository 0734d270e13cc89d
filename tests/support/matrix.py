"""The environments of the matrix: every supported Celery on every supported Python, for workers alone.

A Celery is supported if deploy/ has a lock of its name, a Python if workers/pyproject.toml has its classifier.
"""

import os
import re
import sys
import tomllib
from dataclasses import dataclass

import pytest

from tests.support.fresh_environment import DEPLOY, Environment, interpreter_of, with_small_wheel
from tests.support.processes import REPOSITORY

WHOLE = bool(os.environ.get("TEST_MATRIX"))
"""Whether all of it was asked for, by `python3 deploy test --matrix`; else tests take the short form."""
POOLS = ("prefork", "threads", "gevent", "solo")
_LOCK = "matrix-celery-"


def by_number(version: str) -> list[int]:
    """For sorting."""
    return [int(part) for part in version.split(".")]


def celery_releases() -> list[str]:
    """The supported ones, oldest first, such as 5.4."""
    return sorted((path.stem.removeprefix(_LOCK) for path in DEPLOY.glob(f"{_LOCK}*.lock")), key=by_number)


def pythons() -> list[str]:
    """The supported ones, oldest first, such as 3.10."""
    package = tomllib.loads((REPOSITORY / "workers" / "pyproject.toml").read_text())["project"]
    named = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", text) for text in package["classifiers"])
    return sorted((match[1] for match in named if match), key=by_number)


def running_python() -> str:
    """The version of this Python."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


@dataclass(frozen=True)
class Column:
    """One environment."""

    celery: str
    python: str

    def __str__(self) -> str:
        return f"{self.celery}-{self.python}"

    @property
    def lock(self) -> str:
        return f"{_LOCK}{self.celery}.lock"

    @property
    def packages(self) -> dict[str, str]:
        """What its lock pins."""
        return dict(re.findall(r"(?m)^([\w.-]+)==(\S+)", (DEPLOY / self.lock).read_text()))

    def environment(self, factory: pytest.TempPathFactory) -> Environment:
        """The environment, with the small wheel; skips where this machine has no such Python."""
        interpreter = interpreter_of(self.python)
        if interpreter is None:
            pytest.skip(f"there is no Python {self.python} on this machine")
        return with_small_wheel(factory, interpreter, self.lock)


COLUMNS = [Column(celery, python) for celery in celery_releases() for python in pythons()]
