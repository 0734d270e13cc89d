"""`itinerary up` in a fork, whose leader, API and Flower are forks too: none of them imports the service first.

    python -m tests.support.warm_up up WORDS

Only the way in which its supervisor starts a part of ours is another. Pids, output, deaths, restarts and the order of
the stop are the supervisor's; Redis, the worker and the demo are started as ever.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from scheduler_service.cli import main as command_line
from scheduler_service.runtime import supervisor
from scheduler_service.runtime.children import tethered
from tests.support.warm_command import COMMAND_LINE, Forked, Forking, forking_this

_OURS = [sys.executable, "-P", "-m", COMMAND_LINE]


class Starting:
    """How the supervisor starts a part."""

    def __init__(self, forking: Forking) -> None:
        self._forking = forking

    def __call__(self, argv: Sequence[str], *, env: Mapping[str, str], **more: Any) -> Any:
        """A fork for the command line, a program for anything else."""
        words = argv[len(tethered([])) :]
        if words[: len(_OURS)] != _OURS:
            return subprocess.Popen(argv, env=env, **more)
        read, write = os.pipe()
        with open(os.devnull) as nothing, open(write, "wb"):
            streams = (nothing.fileno(), write, write)
            pid = self._forking.start(COMMAND_LINE, words[len(_OURS) :], env, *streams, cwd=os.getcwd())
        return Forked(pid, open(read, "rb"))


if __name__ == "__main__":
    named = {name: getattr(subprocess, name) for name in ("DEVNULL", "PIPE", "STDOUT")}
    supervisor.subprocess = SimpleNamespace(Popen=Starting(forking_this()), **named)  # type: ignore[assignment]
    command_line()
