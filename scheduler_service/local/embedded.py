"""`Schedule.run()`: a leader and a worker inside a user's own program, with the defaults of `itinerary up`.

Owns the order in which parts start and stop, and the embedded Redis. Promises: one program a data folder; jobs are
applied in one transaction before the first is due. Worker and leader know an added job when adding returns. A stop
finishes running tasks; a part that ends by itself ends the program's run, with an error.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, Final, Protocol

import structlog

from itinerary.protocol.errors import BrokerUnavailable, ItineraryError
from itinerary.protocol.run_fields import DEFAULT_QUEUE
from itinerary.worker.embedded import EmbeddedWorker
from scheduler_service.bootstrap.parts import Stores, open_leader, open_stores
from scheduler_service.config.settings import Settings, load_settings
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.contract.job_plan import JobSet, check_set
from scheduler_service.local.redis_server import server_argv, serves_folder
from scheduler_service.local.up import EmbeddedRedis, embedded_redis
from scheduler_service.loops.election import Leader
from scheduler_service.observability.logs import configure_logs
from scheduler_service.runtime.addresses import Ports, shown_url
from scheduler_service.runtime.children import tethered
from scheduler_service.runtime.run_file import only_one, read_run, write_run
from scheduler_service.runtime.stopping import from_signals
from scheduler_service.sql.migrations import upgrade

_REDIS_WITHIN: Final = 10.0
_POLL_EVERY: Final = 0.5

log = structlog.get_logger(__name__)


class Jobs(Protocol):
    """The jobs to run: a Schedule."""

    stopped: threading.Event

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """Return plain functions by their task names."""

    @property
    def celery_apps(self) -> list[Any]:
        """Return the apps that own the named tasks."""

    def watch(self, listener: Callable[[str], None] | None) -> list[dict[str, Any]]:
        """Report each job added from now on; return the jobs so far."""

    def body(self, job_id: str) -> dict[str, Any]:
        """Return one job."""


def run_embedded(jobs: Jobs, source: str, concurrency: int, given: Mapping[str, Any]) -> None:
    """Run the jobs of `source` until a signal or until `jobs.stopped` is set."""
    if threading.current_thread() is not threading.main_thread():
        raise ItineraryError("call schedule.run() from the main thread; add jobs from others")
    settings = load_settings(**given)
    quiet = "log_level" not in settings.model_fields_set
    configure_logs(settings.log_format, "warning" if quiet else settings.log_level)
    jobs.stopped.clear()
    with ExitStack() as stack:
        stack.enter_context(only_one(settings.data_dir))
        stack.enter_context(_stopped_by_signals(jobs.stopped))
        redis = stack.enter_context(_redis_of(settings))
        if redis is not None:
            settings = load_settings(**{**given, "redis_url": redis.url})
        upgrade(settings.leader_database_url)
        stores = stack.enter_context(open_stores(settings))
        parts = _Parts(jobs, source, settings, stores)
        stack.callback(parts.stop)
        parts.start(concurrency)
        leader = stack.enter_context(open_leader(settings))
        log.info("running", redis=shown_url(settings.redis_url), database=shown_url(settings.database_url))
        _lead(jobs, parts, leader, redis)


class _Parts:
    """A running program's worker and stores; adds jobs to them."""

    def __init__(self, jobs: Jobs, source: str, settings: Settings, stores: Stores) -> None:
        self._jobs = jobs
        self._source = source
        self._settings = settings
        self._stores = stores
        self._worker: EmbeddedWorker | None = None
        # Adding a job waits until the initial jobs are stored: the pruning must not see it.
        self._applying = threading.Lock()

    @property
    def worker_runs(self) -> bool:
        """Whether the worker is running."""
        return self._worker is not None and self._worker.running

    def start(self, concurrency: int) -> None:
        """Start the worker and apply all jobs; jobs that the source no longer names are deleted."""
        with self._applying:
            bodies = self._jobs.watch(self.add)
            self._worker = EmbeddedWorker(
                self._jobs.functions,
                self._jobs.celery_apps,
                broker_url=self._settings.broker_url,
                redis_url=self._settings.redis_url,
                key_prefix=self._settings.key_prefix,
                queues=[DEFAULT_QUEUE, *(_queue_of(body) for body in bodies)],
                concurrency=concurrency,
            )
            self._worker.start()
            self._apply(bodies, prune=True)

    def add(self, job_id: str) -> None:
        """Store one more job, in the thread that adds it."""
        with self._applying:
            if self._worker is None:
                raise ItineraryError("the program has stopped; the job was not added")
            body = self._jobs.body(job_id)
            self._worker.add(body["task"], self._jobs.functions.get(body["task"]), _queue_of(body))
            self._apply([body], prune=False)

    def stop(self) -> None:
        """Refuse further jobs and let running tasks end."""
        self._jobs.watch(None)
        with self._applying:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()

    def _apply(self, bodies: Sequence[Mapping[str, Any]], *, prune: bool) -> None:
        """Store the jobs and notify the leader, which polls the database anyway."""
        read = [read_job(body, created_at=time.time_ns() // 1_000)[0] for body in bodies]
        wanted = JobSet(self._source, read, prune=prune)
        check_set(wanted)
        plan = self._stores.job_sets.apply(wanted, None)
        try:
            for news in plan.news:
                self._stores.inbox.send("job_changed", time.time_ns() // 1_000, news)
        except BrokerUnavailable as exc:
            log.warning("leader not told", error=str(exc))


def _lead(jobs: Jobs, parts: _Parts, leader: Leader, redis: "_RedisServer | None") -> None:
    """Lead in a thread until stopped; the worker ends first, so that its last reports are still applied."""
    leading = threading.Thread(target=leader.run, name="itinerary-leader")
    leading.start()
    try:
        while not jobs.stopped.wait(_POLL_EVERY):
            if redis is not None:
                redis.keep()
            for name, alive in (("leader", leading.is_alive()), ("worker", parts.worker_runs)):
                if not alive:
                    raise ItineraryError(f"the {name} ended by itself; its log says why")
        parts.stop()
    finally:
        leader.stop()
        leading.join()


def _queue_of(body: Mapping[str, Any]) -> str:
    return str(body.get("queue") or DEFAULT_QUEUE)


class _RedisServer:
    """The embedded server as our child; restarted if it dies."""

    def __init__(self, planned: EmbeddedRedis) -> None:
        self.url = planned.url
        self._planned = planned
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        planned = self._planned
        process = subprocess.Popen(
            tethered(server_argv(planned.binary, planned.folder, planned.port, planned.password)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ,
            start_new_session=True,  # only we handle Ctrl-C; the server ends after the last report
        )
        deadline = time.monotonic() + _REDIS_WITHIN
        while not serves_folder(planned.port, planned.folder, planned.password):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise ItineraryError(f"the embedded Redis ({planned.binary}) does not start in {planned.folder}")
            time.sleep(0.02)
        return process

    def keep(self) -> None:
        """Restart the server if it has ended."""
        if self._process.poll() is not None:
            log.warning("embedded redis ended and is started again", status=self._process.returncode)
            self._process = self._start()

    def stop(self) -> None:
        """Stop the server cleanly: all that it acknowledged is on disk."""
        self._process.terminate()
        try:
            self._process.wait(_REDIS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def _redis_of(settings: Settings) -> Iterator[_RedisServer | None]:
    """Return the embedded server, if no other is named."""
    if "redis_url" in settings.model_fields_set:
        yield None
        return
    with Ports() as ports:
        planned = embedded_redis(settings.data_dir, read_run(settings.data_dir), ports)
        server = _RedisServer(planned)
        write_run(settings.data_dir, {"redis_port": planned.port})
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def _stopped_by_signals(stopped: threading.Event) -> Iterator[None]:
    """In the block, the first SIGINT or SIGTERM requests a stop; the second has its previous effect."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with from_signals(stopped.set) as stop:

        def on_signal(number: int, frame: FrameType | None) -> None:
            signal.signal(number, before[signal.Signals(number)] or signal.SIG_DFL)
            stop()

        for number in before:
            signal.signal(number, on_signal)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)
