"""A worker inside another program: plain functions and Celery tasks run in threads of this process.

Owns the worker's thread. Promises that a function added while it runs is known before `add` returns, and that a stop
lets running tasks finish. Takes plain values, and knows nothing of their caller.
"""

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from celery import Celery, signals
from celery.platforms import EX_OK
from celery.utils.nodenames import default_nodename, host_format
from celery.worker import state

from itinerary.jobs.functions import leading
from itinerary.protocol.errors import BadValue, ItineraryError
from itinerary.worker.attach import attach, attach_new_tasks
from itinerary.worker.celery_app import app_of_environment, create_app
from itinerary.worker.current import current_run
from itinerary.worker.tasks import register

Function = Callable[..., Any]
_READY_WITHIN: Final = 30.0
_OWN_THREADS: Final = {"worker_hijack_root_logger": False, "worker_redirect_stdouts": False}


def app_for(functions: Mapping[str, Function], apps: Sequence[Celery]) -> Celery:
    """The one Celery app of these tasks, or our own as the environment describes it, with the functions as tasks."""
    app = _only(apps) or app_of_environment()
    add_functions(app, functions)
    return app


def add_functions(app: Celery, functions: Mapping[str, Function]) -> None:
    """Register plain functions of (job_id, scheduled_at), the first or neither, as tasks of these names."""
    for name, function in functions.items():
        app.task(name=name, shared=False)(_call_of(function))


class EmbeddedWorker:
    """A Celery worker in a thread; `broker_url`, `redis_url` and `key_prefix` override the app's settings."""

    def __init__(
        self,
        functions: Mapping[str, Function],
        apps: Sequence[Celery],
        *,
        broker_url: str,
        redis_url: str,
        key_prefix: str,
        queues: Sequence[str],
        concurrency: int,
    ) -> None:
        self._app = _only(apps)
        if self._app is None:
            self._app = create_app(broker_url, redis_url, key_prefix)
        else:
            register(self._app)
            attach(self._app, redis_url, key_prefix=key_prefix)
            self._app.conf.update(broker_url=broker_url, broker_read_url=broker_url, broker_write_url=broker_url)
        self._app.conf.update(_OWN_THREADS)
        add_functions(self._app, functions)
        self._queues = list(dict.fromkeys(queues))
        self._concurrency = concurrency
        self._hostname = host_format(default_nodename(f"embedded-{secrets.token_hex(4)}@%h"))
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._worker: Any = None
        self._thread = threading.Thread(target=self._work, name="itinerary-worker")

    @property
    def running(self) -> bool:
        """Whether the worker's thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start and wait until the worker takes tasks; ItineraryError if it does not."""
        signals.worker_ready.connect(self._on_ready)
        self._thread.start()
        while not self._ready.wait(0.05):
            if not self.running:
                raise ItineraryError("the worker ended while it started; see its log")

    def stop(self) -> None:
        """Take no more tasks, finish the running ones, and return."""
        flags: Any = state
        if self.running:
            flags.should_stop = EX_OK
            self._thread.join()
        flags.should_stop = None
        signals.worker_ready.disconnect(self._on_ready)

    def add(self, name: str, function: Function | None, queue: str) -> None:
        """Register one more function, and consume one more queue."""
        with self._lock:
            assert self._app is not None
            if function is not None and name not in self._app.tasks:
                add_functions(self._app, {name: function})
                attach_new_tasks(self._app)
                self._worker.consumer.update_strategies()
            if queue not in self._queues:
                self._app.control.add_consumer(queue, destination=[self._hostname], reply=True, timeout=_READY_WITHIN)
                self._queues.append(queue)

    def _work(self) -> None:
        assert self._app is not None
        self._worker = self._app.Worker(
            hostname=self._hostname,
            pool_cls="threads",
            concurrency=self._concurrency,
            loglevel="WARNING",
            queues=self._queues,
            task_events=True,
            without_gossip=True,
            without_mingle=True,
            quiet=True,
            no_color=True,
        )
        self._worker.start()

    def _on_ready(self, sender: Any, **_: Any) -> None:
        if sender.app is self._app:
            self._ready.set()


def _only(apps: Sequence[Celery]) -> Celery | None:
    if len(apps) > 1:
        names = ", ".join(str(app.main) for app in apps)
        raise BadValue("task", names, "tasks of one Celery app only: a worker runs one")
    return apps[0] if apps else None


def _call_of(function: Function) -> Function:
    def call(*args: Any, **kwargs: Any) -> Any:
        run = current_run()
        if run is None:
            raise RuntimeError("only Itinerary may call this function: it supplies the job and the time")
        given = (run.job_id, run.scheduled_at)[: leading(function, args, kwargs) or 0]
        return function(*given, *args, **kwargs)

    return call
