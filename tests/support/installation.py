"""One installation of real parts on a given Redis: a leader in a thread of the test, and our worker as a process."""

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, closing, redirect_stdout
from io import StringIO
from types import TracebackType
from typing import Any, Self

from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.keys import Keys
from scheduler_service.bootstrap.parts import open_leader, open_stores
from scheduler_service.broker.client import connect
from scheduler_service.cli.doctor import examine
from scheduler_service.config.settings import load_settings
from scheduler_service.core.model import NewRun, Run, RunKind
from scheduler_service.core.run_state import FINAL
from tests.support.processes import Child, project_env, wait_until
from tests.support.worker_process import WORKER_PYTHON


class Installation(AbstractContextManager["Installation"]):
    """`settings` are the leader's and the API's; `worker` has the variables of the worker's process."""

    def __init__(
        self, worker: Mapping[str, str], *, queue: str = "default", api_database_url: str | None = None, **settings: Any
    ) -> None:
        self.settings = load_settings(**settings)
        self._of_api = load_settings(**settings | {"database_url": api_database_url or self.settings.database_url})
        self._variables = worker
        self._queue = queue
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        leader = self._stack.enter_context(open_leader(self.settings))
        thread = threading.Thread(target=leader.run, name="leader of the installation")
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(leader.stop)
        self.stores = self._stack.enter_context(open_stores(self._of_api))
        # With nothing in flight the epoch is accepted at once; with a run it would take eight seconds.
        with closing(connect(self.settings.redis_url)) as client:
            wait_until(lambda: client.get(Keys(self.settings.key_prefix).epoch))
        # Not before: beside another installation's leader, a worker without its own refuses to start.
        argv = [WORKER_PYTHON, "-m", "itinerary", "worker", "-c", "1", "-P", "solo", "-Q", self._queue]
        self.worker = self._stack.enter_context(Child(argv, env=project_env(**self._variables)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def enqueue(
        self, name: str, task: str = "itinerary.echo", args: tuple[Any, ...] = ("hello",), queue: str | None = None
    ) -> str:
        """The id of a new run that is due now."""
        run = NewRun(adhoc_run_id(name), RunKind.ADHOC, task, 0, 0, args=args, queue=queue or self._queue)
        ((stored, _),) = self.stores.runs.enqueue([run])
        return stored.run_id

    def ended(self, run_id: str) -> Run:
        """The run once it is over."""

        def final() -> Run | None:
            run = self.stores.runs.get(run_id)
            return run if run.state in FINAL else None

        return wait_until(final, what=lambda: f"{self.stores.runs.get(run_id)}\n{self.worker.output}")

    def doctor(self) -> dict[str, str]:
        """What `itinerary doctor` prints, by the name of the check."""
        out = StringIO()
        with redirect_stdout(out):
            examine(self.settings)
        return {line[6:].split("  ")[0].strip(): line for line in out.getvalue().splitlines()}
