"""The service in memory as a test uses it: its clock, what is due, and what the program enqueued.

Promises that, while it is active (`with Service(app):`), each `Client` and `AsyncClient` of the process talks to it.
`enqueue_in` and its kin store their runs here, whatever connection they are given. Nothing runs by itself: `run_due`
runs what is due.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from itinerary.client import async_connections, connections, http_pool, results
from itinerary.client.sync import Client
from itinerary.jobs.body import plain_fields
from itinerary.protocol.errors import BadValue, ItineraryError
from itinerary.protocol.instants import Instant, from_datetime, parse_duration, parse_instant, to_datetime
from itinerary.testing.api import answer
from itinerary.testing.in_transaction import AsyncTarget, Target
from itinerary.testing.run import Run
from itinerary.testing.store import MOST, Store

if TYPE_CHECKING:
    from celery import Celery


class Service:
    """A service in memory that runs tasks of `app`; use it in a `with` block.

    Its clock runs with the host's until `advance` moves it ahead. With `now` it stands still at that instant. The clock
    of your code (`datetime.now()`) is not changed.
    """

    def __init__(self, app: "Celery | None" = None, *, now: str | datetime | None = None) -> None:
        self._app = app
        self._store = Store(None if now is None else _instant(now, "now"))
        self._patches = ExitStack()
        self._is_loaded = False

    def __enter__(self) -> "Service":
        store = self._store
        with ExitStack() as stack:
            stack.enter_context(patch.object(http_pool.Pool, "ask", lambda _pool, *request: answer(store, *request)))
            stack.enter_context(patch.object(connections, "target_of", lambda *_: Target(store)))
            stack.enter_context(patch.object(async_connections, "async_target_of", AsyncTarget(store).opened))
            self._patches = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patches.close()

    @property
    def now(self) -> datetime:
        """The time that the service's clock shows, in UTC."""
        return to_datetime(self._store.now)

    @property
    def runs(self) -> list[results.Run]:
        """Every run, in the order in which they were created, as the client returns it."""
        return _shown(self._store.runs.values())

    def client(self) -> Client:
        """A client of this service; the program's own clients are served as well."""
        return Client("http://itinerary.testing")

    def advance(self, by: str | timedelta) -> None:
        """Move the clock, by "1h" or a timedelta; the runs of scheduled jobs that fall due are created on the way."""
        self._store.move(parse_duration(plain_fields({"by": by})["by"], "by"))

    def advance_to(self, at: str | datetime) -> None:
        """Move the clock forward to an instant, as `advance` does."""
        by = _instant(at, "at") - self._store.now
        if by < 0:
            raise BadValue("at", str(at), f"the clock shows {self.now.isoformat()} and only moves forward")
        self._store.move(by)

    def apply_jobs(self) -> list[results.Job]:
        """Add the jobs that are declared beside the app's tasks; they are due as the clock moves on."""
        from itinerary.jobs import collect

        return [results.Job.of(self._store.put_job(body).body) for body in collect(self._loaded())]

    def run_due(self, *, raises: bool = True) -> list[results.Run]:
        """Run everything that is due now, also what these runs enqueue, each by its app's task in this process.

        Returns the runs in their order. Before that it raises the exception of the first run that failed for good,
        unless `raises` is false.
        """
        from itinerary.testing.attempt import attempt

        app = self._loaded()
        ran: dict[str, Run] = {}
        for _ in range(MOST):
            run = self._store.next_due()
            if run is None:
                break
            ran[run.run_id] = run
            attempt(app, run, self._store.now)
        else:
            raise ItineraryError(f"{MOST} attempts ran and more are due: does a task enqueue itself?")
        failed = next((run.failure for run in ran.values() if run.state == "failed"), None)
        if raises and failed is not None:
            raise failed
        return _shown(ran.values())

    def assert_enqueued(
        self,
        task: Any,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        queue: str | None = None,
        run_at: str | datetime | None = None,
        times: int | None = None,
    ) -> list[results.Run]:
        """Fail unless the program enqueued or triggered this task so, at least once or exactly `times`.

        `task` is its name or the task itself. A value that is not given is not compared. Returns the runs that match.
        """
        name = task if isinstance(task, str) else task.name
        wanted = plain_fields({"task": name, "args": args, "kwargs": kwargs, "queue": queue})
        if run_at is not None:
            wanted["scheduled_at"] = _instant(run_at, "run_at")
        asked = [run for run in self._store.runs.values() if not run.is_occurrence]
        found = [run for run in asked if all(getattr(run, key) == value for key, value in wanted.items())]
        if (not found) if times is None else len(found) != times:
            given = {"args": args, "kwargs": kwargs, "queue": queue, "run_at": run_at}
            raise AssertionError(_difference(name, given, times, len(found), asked))
        return _shown(found)

    def _loaded(self) -> "Celery":
        """The app with all its tasks."""
        if self._app is None:
            raise ItineraryError("this needs the app: Service(app)")
        if not self._is_loaded:
            self._app.loader.import_default_modules()
            self._app.finalize()
            self._is_loaded = True
        return self._app


def _shown(runs: Iterable[Run]) -> list[results.Run]:
    return [results.Run.of(run.body()) for run in runs]


def _difference(name: str, given: Mapping[str, Any], times: int | None, found: int, asked: Sequence[Run]) -> str:
    shown = ", ".join(f"{key}={value!r}" for key, value in given.items() if value is not None)
    expected = "at least once" if times is None else f"exactly {_counted(times)}"
    with_these = f" with {shown}" if shown else ""
    first = f"{name} was enqueued {_counted(found)}{with_these}, not {expected}. Enqueued were:"
    return "\n  ".join([first, *([_line(run) for run in asked] or ["nothing"])])


def _counted(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


def _line(run: Run) -> str:
    at = to_datetime(run.scheduled_at).isoformat()
    return f"{run.task} args={run.args!r} kwargs={run.kwargs!r} queue={run.queue} run_at={at} ({run.state})"


def _instant(at: str | datetime, field: str) -> Instant:
    if not isinstance(at, datetime):
        return parse_instant(at, field)
    if at.tzinfo is None:
        raise BadValue(field, at.isoformat(), "give an aware datetime, or a text with an offset")
    return from_datetime(at)
