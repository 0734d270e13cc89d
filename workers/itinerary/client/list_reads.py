"""Lists of jobs and of runs: a page of what a filter finds, in an order, or all of it page by page.

Promises that each filter is a named argument, so that a misspelt one is an error and never a list of everything.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from itinerary.client.log_reads import LogReads
from itinerary.client.results import JobPage, ListedJob, Run, RunPage
from itinerary.client.run_body import Moment, moment_text
from itinerary.client.transport import given


class ListReads(LogReads):
    """The lists of a client."""

    def jobs(
        self,
        *,
        tag: str | None = None,
        q: str | None = None,
        paused: bool | None = None,
        source: str | None = None,
        queue: str | None = None,
        task: str | None = None,
        last_state: str | Sequence[str] | None = None,
        sort: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        total: bool | None = None,
        with_runs: bool | None = None,
    ) -> JobPage:
        """One page of jobs by their id; `q` is found in id, title or task, `source` is the file that owns them.

        `last_state` is one or several states of the last run. `sort`: job_id, next_run, last_run or last_state;
        `-last_run` is the reverse; ApiError 422 where too many jobs match for it. `total` also counts them, up to
        10,000; `with_runs` gives each its `next_run_at` and `last_run`.
        """
        asked = given(
            tag=tag, q=q, paused=paused, source=source, queue=queue, task=task, last_state=last_state, sort=sort,
            limit=limit, cursor=cursor, total=total, with_runs=with_runs,
        )  # fmt: skip
        return JobPage.of(self._api.object("GET", "/jobs", params=asked))

    def all_jobs(
        self,
        *,
        tag: str | None = None,
        q: str | None = None,
        paused: bool | None = None,
        source: str | None = None,
        queue: str | None = None,
        task: str | None = None,
        last_state: str | Sequence[str] | None = None,
        sort: str | None = None,
        with_runs: bool | None = None,
    ) -> Iterator[ListedJob]:
        """Every job that passes the filters of `jobs`, page by page."""
        asked = partial(self.jobs, tag=tag, q=q, paused=paused, source=source, with_runs=with_runs)
        return _pages(partial(asked, queue=queue, task=task, last_state=last_state, sort=sort))

    def runs(
        self,
        *,
        job_id: str | None = None,
        state: str | Sequence[str] | None = None,
        queue: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        task: str | None = None,
        limit_name: str | None = None,
        limit_key: str | None = None,
        sort: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        total: bool | None = None,
    ) -> RunPage:
        """One page of runs, newest first; `state` is one or several, the times are RFC 3339.

        `sort`: scheduled_at, due_at, started_at, finished_at or duration; `-duration` is the reverse. `total` also
        counts them, up to 10,000. A page by `task`, limit or another order may have fewer than `limit`, or none.
        """
        asked = given(
            job_id=job_id, state=state, queue=queue, **window(since, until), task=task, limit_name=limit_name,
            limit_key=limit_key, sort=sort, limit=limit, cursor=cursor, total=total,
        )  # fmt: skip
        return RunPage.of(self._api.object("GET", "/runs", params=asked))

    def all_runs(
        self,
        *,
        job_id: str | None = None,
        state: str | Sequence[str] | None = None,
        queue: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        task: str | None = None,
        limit_name: str | None = None,
        limit_key: str | None = None,
        sort: str | None = None,
    ) -> Iterator[Run]:
        """Every run that passes the filters of `runs`, in the order of its pages."""
        asked = partial(self.runs, job_id=job_id, state=state, queue=queue, since=since, until=until)
        return _pages(partial(asked, task=task, limit_name=limit_name, limit_key=limit_key, sort=sort))


def window(since: Moment | None, until: Moment | None) -> dict[str, Any]:
    """Return both ends of a time as parameters."""
    return {"since": moment_text(since, "since"), "until": moment_text(until, "until")}


def _pages(fetch: Callable[..., Any]) -> Iterator[Any]:
    cursor = None
    while True:
        page = fetch(limit=1000, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return
