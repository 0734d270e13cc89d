"""The command line as a child process."""

import subprocess
import sys
import tempfile
from dataclasses import dataclass

from tests.support.processes import REPOSITORY
from tests.support.warm_command import is_like_any, warm_command

COMMAND = [sys.executable, "-m", "scheduler_service.cli"]


@dataclass(frozen=True, slots=True)
class Itinerary:
    """The command line with the settings of one deployment."""

    env: dict[str, str]

    def __call__(self, *words: str, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        whole = {**self.env, **env}
        if is_like_any(whole) and "--show-completion" not in words:  # the shell is found among the parents
            return _warm(words, whole, stdin)
        return subprocess.run(
            [*COMMAND, *words],
            env=whole,
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


def _warm(words: tuple[str, ...], env: dict[str, str], stdin: str | None) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        given.write((stdin or "").encode())
        given.seek(0)
        warm_command().start(words, env, given.fileno(), out.fileno(), errors.fileno())
        status = warm_command().wait()
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess([*COMMAND, *words], status, out.read().decode(), errors.read().decode())
