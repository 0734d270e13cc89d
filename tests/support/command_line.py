"""The command line as a child process."""

import subprocess
import sys
from dataclasses import dataclass

from tests.support.processes import REPOSITORY

COMMAND = [sys.executable, "-m", "scheduler_service.cli"]


@dataclass(frozen=True, slots=True)
class Itinerary:
    """The command line with the settings of one deployment."""

    env: dict[str, str]

    def __call__(self, *words: str, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        return subprocess.run(
            [*COMMAND, *words],
            env={**self.env, **env},
            cwd=REPOSITORY,
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def done(self, *words: str, **env: str) -> str:
        """Its standard output; it must end with status 0 and say nothing on stderr."""
        ended = self(*words, **env)
        assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
        return ended.stdout
