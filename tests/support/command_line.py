"""The command line as a child process."""

import subprocess
import sys
import tempfile
from dataclasses import dataclass

from tests.support.warm_command import COMMAND_LINE, start_service

COMMAND = [sys.executable, "-m", COMMAND_LINE]


@dataclass(frozen=True, slots=True)
class Itinerary:
    """The command line with the settings of one deployment."""

    env: dict[str, str]

    def __call__(self, *words: str, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            given.write((stdin or "").encode())
            given.seek(0)
            process = start_service(words, {**self.env, **env}, given.fileno(), out.fileno(), errors.fileno())
            try:
                status = process.wait()
            finally:
                process.kill()
                process.wait()
            out.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess([*COMMAND, *words], status, out.read().decode(), errors.read().decode())

    def done(self, *words: str, **env: str) -> str:
        """Its standard output; it must end with status 0 and say nothing on stderr."""
        ended = self(*words, **env)
        assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
        return ended.stdout
