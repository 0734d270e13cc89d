"""The client for asyncio: the methods of `Client`, each awaited while a thread runs it.

Promises that the event loop is never blocked. The threads belong to this client, at most `at_once` of them; contextvars
are passed on, so that traces continue. Adds no request of its own: each method has the arguments and result of
`Client`'s.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, wraps
from itertools import islice
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from itinerary.client.results import Run
from itinerary.client.sync import Client
from itinerary.client.waiting import Patience, checked

_PAGE: Final = 1000
_P = ParamSpec("_P")
_T = TypeVar("_T")
_Client = TypeVar("_Client", bound="AsyncClient")


def _awaited(
    method: Callable[Concatenate[Client, _P], _T],
) -> "Callable[Concatenate[AsyncClient, _P], Coroutine[Any, Any, _T]]":
    """The method of `Client` as a coroutine function with the same arguments."""

    @wraps(method)
    async def call(self: "AsyncClient", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self._in_thread(partial(method, self._client, *args, **kwargs))

    return call


def _page_by_page(
    method: Callable[Concatenate[Client, _P], Iterator[_T]], at_once: int = _PAGE
) -> "Callable[Concatenate[AsyncClient, _P], AsyncIterator[_T]]":
    """A method that yields items, as an asynchronous generator; each page of so many items is one request."""

    @wraps(method)
    async def call(self: "AsyncClient", /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncIterator[_T]:
        items = method(self._client, *args, **kwargs)
        while page := await self._in_thread(lambda: list(islice(items, at_once))):
            for item in page:
                yield item

    return call


class AsyncClient:
    """One API at `base_url`, for `async with`; the arguments are those of `Client`.

    At most `at_once` requests are in progress; others wait for their turn. A cancelled request may still be carried
    out. Event loops may share the client, processes may not.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        token: str | None = None,
        timeout: float = 10,
        retries: int = 3,
        *,
        total_timeout: float | None = None,
        at_once: int = 20,
    ) -> None:
        self._client = Client(base_url, token, timeout, retries, total_timeout=total_timeout)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="itinerary-client")
        self.base_url = self._client.base_url

    async def close(self) -> None:
        """Close the connections, each once its request is over; waiting requests are not sent."""
        self._client.close()
        self._threads.shutdown(wait=False)

    async def __aenter__(self: "_Client") -> "_Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def wait(self, run_id: str, timeout: float = 60, every: float = 0.2, *, raises: bool = False) -> Run:
        """`Client.wait`, with no thread held between the queries."""
        patience = Patience(timeout, every)
        while True:
            run = await self._in_thread(partial(self._client._final_run, run_id, patience))
            if run is not None:
                return checked(run) if raises else run
            await asyncio.sleep(patience.pause())

    async def result(self, run_id: str, timeout: float = 60) -> Any:
        """`Client.result`, with no thread held between the queries."""
        return (await self.wait(run_id, timeout, raises=True)).result

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, copy_context().run, call)

    again = _awaited(Client.again)
    all_jobs = _page_by_page(Client.all_jobs)
    all_runs = _page_by_page(Client.all_runs)
    apply_jobs = _awaited(Client.apply_jobs)
    audit = _awaited(Client.audit)
    backfill = _awaited(Client.backfill)
    bulk_jobs = _awaited(Client.bulk_jobs)
    bulk_operation = _awaited(Client.bulk_operation)
    bulk_operations = _awaited(Client.bulk_operations)
    bulk_runs = _awaited(Client.bulk_runs)
    cancel = _awaited(Client.cancel)
    create_job = _awaited(Client.create_job)
    delete_job = _awaited(Client.delete_job)
    distribution = _awaited(Client.distribution)
    trends = _awaited(Client.trends)
    run_calendar = _awaited(Client.run_calendar)
    enqueue = _awaited(Client.enqueue)
    enqueue_batch = _awaited(Client.enqueue_batch)
    explain_job = _awaited(Client.explain_job)
    explain_run = _awaited(Client.explain_run)
    job = _awaited(Client.job)
    jobs = _awaited(Client.jobs)
    patch_job = _awaited(Client.patch_job)
    pause_job = _awaited(Client.pause_job)
    queue = _awaited(Client.queue)
    describe_queue = _awaited(Client.describe_queue)
    put_queue = _awaited(Client.put_queue)
    patch_queue = _awaited(Client.patch_queue)
    freeze = _awaited(Client.freeze)
    freezes = _awaited(Client.freezes)
    start_freeze = _awaited(Client.start_freeze)
    end_freeze = _awaited(Client.end_freeze)
    sessions = _awaited(Client.sessions)
    end_session = _awaited(Client.end_session)
    share_links = _awaited(Client.share_links)
    share_page = _awaited(Client.share_page)
    revoke_share_link = _awaited(Client.revoke_share_link)
    calendar = _awaited(Client.calendar)
    calendars = _awaited(Client.calendars)
    calendar_days = _awaited(Client.calendar_days)
    calendar_jobs = _awaited(Client.calendar_jobs)
    calendar_monitors = _awaited(Client.calendar_monitors)
    calendar_versions = _awaited(Client.calendar_versions)
    preview_calendar = _awaited(Client.preview_calendar)
    put_calendar = _awaited(Client.put_calendar)
    delete_calendar = _awaited(Client.delete_calendar)
    monitor = _awaited(Client.monitor)
    monitors = _awaited(Client.monitors)
    put_monitor = _awaited(Client.put_monitor)
    renew_monitor_token = _awaited(Client.renew_monitor_token)
    delete_monitor = _awaited(Client.delete_monitor)
    limit = _awaited(Client.limit)
    limits = _awaited(Client.limits)
    put_limit = _awaited(Client.put_limit)
    patch_limit = _awaited(Client.patch_limit)
    delete_limit = _awaited(Client.delete_limit)
    pause_queue = _awaited(Client.pause_queue)
    resume_queue = _awaited(Client.resume_queue)
    plan_bulk_jobs = _awaited(Client.plan_bulk_jobs)
    plan_bulk_runs = _awaited(Client.plan_bulk_runs)
    preview = _awaited(Client.preview)
    preview_job = _awaited(Client.preview_job)
    preview_rebalance = _awaited(Client.preview_rebalance)
    put_job = _awaited(Client.put_job)
    queues = _awaited(Client.queues)
    rebalance = _awaited(Client.rebalance)
    resume_job = _awaited(Client.resume_job)
    retry = _awaited(Client.retry)
    run_logs = _awaited(Client.run_logs)
    follow_logs = _page_by_page(Client.follow_logs, 1)
    run = _awaited(Client.run)
    runs = _awaited(Client.runs)
    status = _awaited(Client.status)
    stop_bulk = _awaited(Client.stop_bulk)
    tasks = _awaited(Client.tasks)
    trigger = _awaited(Client.trigger)
    undo_bulk = _awaited(Client.undo_bulk)
    undo_rebalance = _awaited(Client.undo_rebalance)
    view = _awaited(Client.view)
    views = _awaited(Client.views)
    put_view = _awaited(Client.put_view)
    delete_view = _awaited(Client.delete_view)
    workers = _awaited(Client.workers)
    zone_rules = _awaited(Client.zone_rules)
    zone_rules_diff = _awaited(Client.zone_rules_diff)
