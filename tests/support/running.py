"""A whole `itinerary up` as a child process, for the tests that drive it from outside."""

import os
import signal
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from itinerary.client.sync import ApiError, Client, NoAnswer
from scheduler_service.runtime.run_file import read_run, write_run
from tests.support.command_line import COMMAND
from tests.support.processes import PATIENCE, Child, alive, free_port, project_env, wait_until
from tests.support.warm_command import WarmChild, is_like_any


def own_redis_port(data_dir: Path) -> None:
    """Have the Redis of this new data folder on a port of its own.

    All look at the same port first: two that start at once, or while one's Redis is killed, would both take it.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    write_run(data_dir, {"redis_port": free_port()})


class Running(AbstractContextManager["Running"]):
    """`itinerary up WORDS` on free ports with its data in `data_dir`; stopped, at the latest, with the `with` block."""

    def __init__(self, data_dir: Path, *words: str, command: Sequence[str] = COMMAND, **settings: str) -> None:
        self.data_dir = data_dir
        own_redis_port(data_dir)
        self._argv = [*command, "up", "--data-dir", str(data_dir), *words]
        ports = {"ITINERARY_API_PORT": str(free_port()), "ITINERARY_FLOWER_PORT": str(free_port())}
        self._env = project_env(**ports, NO_COLOR="1") | settings
        self.process: Child | None = None

    def _launched(self) -> Child:
        return Child(self._argv, env=self._env, cwd=self.data_dir.parent)

    def start(self, timeout: float = PATIENCE) -> Self:
        """Start it (again) and wait until the API answers and a leader leads."""
        child = self.process = self._launched()
        wait_until(lambda: self._leads() or not child.running, timeout, lambda: child.output, every=0.1)
        if not child.running:
            raise AssertionError(f"`itinerary up` ended at once:\n{child.output}")
        return self

    @property
    def written(self) -> dict[str, Any]:
        """What run.json says now."""
        return read_run(self.data_dir)

    def setting(self, name: str) -> str:
        """One variable of its environment."""
        return self._env[name]

    @property
    def output(self) -> str:
        return self.process.output if self.process else ""

    def client(self) -> Client:
        """A client of its API; close it or use it in a `with` block."""
        return Client(self.written["api_url"], timeout=PATIENCE)

    def pid_of(self, part: str) -> int:
        """The pid of a part's present process, once it has one."""
        return wait_until(lambda: self._pid(part), what=lambda: f"{part} to run:\n{self.output}")

    def wait_for(self, part: str) -> None:
        """Until a part has said that it is ready."""
        wait_until(
            lambda: self.written.get("parts", {}).get(part, {}).get("state") == "ready", what=lambda: self.output
        )

    def kill_part(self, part: str) -> int:
        """kill -9 of one part's main process; its old pid. Returns once the supervisor has started another."""
        old = self.pid_of(part)
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: self._pid(part) not in (None, old), what=lambda: f"another {part}:\n{self.output}")
        return old

    def stop(self, timeout: float = PATIENCE) -> int:
        """Ctrl-C; the exit status, and AssertionError where a process was left behind."""
        assert self.process is not None
        pids = [part["pid"] for part in self.written.get("parts", {}).values() if part["pid"]]
        self.process.signal(signal.SIGINT)
        status = self.process.wait(timeout)
        left = [pid for pid in pids if alive(pid)]
        assert not left, f"still running after the stop: {left}\n{self.output}"
        return status

    def _pid(self, part: str) -> int | None:
        pid: int | None = self.written.get("parts", {}).get(part, {}).get("pid")
        return pid

    def _leads(self) -> bool:
        try:
            with Client(self.written.get("api_url", "http://127.0.0.1:9"), timeout=2) as client:
                return bool(client.status().get("leader"))
        except (ApiError, NoAnswer):
            return False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.running:
            self.process.kill_alone()  # its parts die with it


class WarmRunning(Running):
    """The same from forks, where nothing in its environment decides while Python starts."""

    def _launched(self) -> Child:
        if not is_like_any(self._env):
            return super()._launched()
        return WarmChild("tests.support.warm_up", *self._argv[len(COMMAND) :], env=self._env, cwd=self.data_dir.parent)
