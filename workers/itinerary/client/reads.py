"""The reading half of the client: lists with their filters, single jobs and runs, explanations, the scheduler.

Promises that each filter is a named argument, so that a misspelt one is an error and never a list of everything.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from itinerary.client.transport import Transport, given, segment

PLANNED_WITHIN: Final = 40.0


class Reads:
    """The requests of a client that change nothing."""

    def __init__(self, api: Transport) -> None:
        self._api = api

    def jobs(
        self,
        *,
        tag: str | None = None,
        q: str | None = None,
        paused: bool | None = None,
        source: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        total: bool | None = None,
        with_runs: bool | None = None,
    ) -> dict[str, Any]:
        """One page of jobs by their id; `q` is found in id, title or task, `source` is the file that owns them.

        `total` also counts them, up to 10,000; `with_runs` gives each its `next_run_at` and `last_run`.
        """
        asked = given(
            tag=tag, q=q, paused=paused, source=source, limit=limit, cursor=cursor, total=total, with_runs=with_runs
        )  # fmt: skip
        return self._api.object("GET", "/jobs", params=asked)

    def all_jobs(
        self,
        *,
        tag: str | None = None,
        q: str | None = None,
        paused: bool | None = None,
        source: str | None = None,
        with_runs: bool | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Every job that passes the filters of `jobs`, page by page."""
        return _pages(partial(self.jobs, tag=tag, q=q, paused=paused, source=source, with_runs=with_runs))

    def job(self, job_id: str) -> dict[str, Any]:
        """One job, with its `next_runs`."""
        return self._api.object("GET", f"/jobs/{segment(job_id)}")

    def runs(
        self,
        *,
        job_id: str | None = None,
        state: str | Sequence[str] | None = None,
        queue: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        total: bool | None = None,
    ) -> dict[str, Any]:
        """One page of runs, newest first; `state` is one or several, the times are RFC 3339.

        `total` also counts them, up to 10,000.
        """
        asked = given(
            job_id=job_id, state=state, queue=queue, since=since, until=until, limit=limit, cursor=cursor, total=total
        )  # fmt: skip
        return self._api.object("GET", "/runs", params=asked)

    def all_runs(
        self,
        *,
        job_id: str | None = None,
        state: str | Sequence[str] | None = None,
        queue: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Every run that passes the filters of `runs`, newest first, page by page."""
        return _pages(partial(self.runs, job_id=job_id, state=state, queue=queue, since=since, until=until))

    def run(self, run_id: str) -> dict[str, Any]:
        """One run with its attempts."""
        return self._api.object("GET", f"/runs/{segment(run_id)}")

    def explain_job(self, job_id: str, at: str) -> dict[str, Any]:
        """The decision about the job at an instant (RFC 3339), and its reasons."""
        return self._api.object("GET", f"/jobs/{segment(job_id)}/explain", params={"at": at})

    def explain_run(self, run_id: str) -> dict[str, Any]:
        """The reasons for the run's state."""
        return self._api.object("GET", f"/runs/{segment(run_id)}/explain")

    def audit(
        self,
        *,
        subject: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> dict[str, Any]:
        """One page of the audit log, newest first; `subject` is a job's or a run's id."""
        asked = given(
            subject=subject, actor=actor, action=action, since=since, until=until, limit=limit, cursor=cursor
        )  # fmt: skip
        return self._api.object("GET", "/audit", params=asked)

    def status(self) -> dict[str, Any]:
        """The leader, since when it leads, and its view of the scheduler."""
        return self._api.object("GET", "/scheduler/status")

    def distribution(self) -> dict[str, Any]:
        """The load of the coming 24 hours."""
        return self._api.object("GET", "/scheduler/distribution", timeout=PLANNED_WITHIN)

    def workers(self) -> list[dict[str, Any]]:
        """The workers whose heartbeats the leader receives."""
        items: list[dict[str, Any]] = self._api.object("GET", "/workers")["items"]
        return items

    def queues(self) -> list[dict[str, Any]]:
        """The queues that the leader dispatches to."""
        items: list[dict[str, Any]] = self._api.object("GET", "/queues")["items"]
        return items

    def preview_job(self, job_id: str, count: int = 10, start: str | None = None) -> dict[str, Any]:
        """The next `count` occurrences of a job after `start` (default: now)."""
        return self._api.object("GET", f"/jobs/{segment(job_id)}/preview", params=given(count=count, **{"from": start}))

    def preview(self, schedule: Mapping[str, Any], count: int = 10, start: str | None = None) -> dict[str, Any]:
        """The next `count` occurrences of a schedule that is not saved."""
        return self._api.object(
            "POST", "/preview", again=True, json=given(schedule=schedule, count=count, **{"from": start})
        )


def _pages(fetch: Callable[..., dict[str, Any]]) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        page = fetch(limit=1000, cursor=cursor)
        yield from page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return
