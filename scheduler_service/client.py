"""The Python client of the REST API: plain values in, the API's own JSON out.

Promises: light to import, a timeout on every call, errors as ItineraryError with what the API said. Never sends a
request twice by itself. Not safe to share between processes; threads may share one.
"""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import httpx2

from scheduler_service.core.errors import ItineraryError

FINAL_STATES: Final = frozenset({"completed", "failed", "cancelled", "skipped", "missed"})
_PREFIX: Final = "/api/v1"


class ApiError(ItineraryError):
    """The API refused; `problem` is its problem document, `status` the HTTP status."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = problem
        complaints = "; ".join(str(error.get("msg", "")) for error in problem.get("errors") or [])
        detail = complaints or problem.get("detail") or problem.get("title") or "no explanation"
        super().__init__(f"{detail} (HTTP {status})")


class NoAnswer(ItineraryError):
    """The API did not answer; whether it carried out the request is unknown."""


class WaitTimeout(ItineraryError):
    """The run was not final when the time was up; it goes on."""


class Client:
    """One API at `base_url`; `token` is sent as a bearer token. Close it, or use it in a `with` block."""

    def __init__(self, base_url: str = "http://127.0.0.1:8080", token: str | None = None, timeout: float = 10) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.base_url = base_url.rstrip("/")
        self._http = httpx2.Client(base_url=self.base_url, headers=headers, timeout=timeout, trust_env=False)

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def jobs(self, **filters: Any) -> dict[str, Any]:
        """One page of jobs: `tag`, `q`, `paused`, `limit`, `cursor`."""
        return self._object("GET", "/jobs", params=filters)

    def job(self, job_id: str) -> dict[str, Any]:
        """One job, with its `next_runs`."""
        return self._object("GET", f"/jobs/{_segment(job_id)}")

    def create_job(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Make a job; ApiError 409 where it exists."""
        return self._object("POST", "/jobs", json=job)

    def put_job(self, job_id: str, job: Mapping[str, Any], if_version: int | None = None) -> dict[str, Any]:
        """Make or replace a job; ApiError 412 where `if_version` is not the current one."""
        return self._object("PUT", f"/jobs/{_segment(job_id)}", json=job, headers=_if_match(if_version))

    def patch_job(self, job_id: str, change: Mapping[str, Any], if_version: int | None = None) -> dict[str, Any]:
        """Change some fields of a job."""
        return self._object("PATCH", f"/jobs/{_segment(job_id)}", json=change, headers=_if_match(if_version))

    def apply_jobs(
        self,
        source: str | None,
        jobs: Sequence[Mapping[str, Any]],
        *,
        prune: bool = False,
        dry_run: bool = False,
        take_over: bool = False,
        plan_version: str | None = None,
    ) -> dict[str, Any]:
        """Make the jobs of `source` as given, all or nothing; the plan that was carried out, or would be.

        ApiError 409 where `plan_version` is of an older state, or a job belongs to another source.
        """
        wanted = _given(source=source, plan_version=plan_version)
        flags = {"prune": prune, "dry_run": dry_run, "take_over": take_over}
        return self._object("POST", "/jobs/apply", json={**wanted, **flags, "jobs": list(jobs)})

    def delete_job(self, job_id: str) -> None:
        """Delete a job; its history stays."""
        self._send("DELETE", f"/jobs/{_segment(job_id)}")

    def pause_job(self, job_id: str, reason: str | None = None, until: str | None = None) -> dict[str, Any]:
        """Pause a job, for good or `until` an RFC 3339 time."""
        return self._object("POST", f"/jobs/{_segment(job_id)}/pause", json=_given(reason=reason, until=until))

    def resume_job(self, job_id: str) -> dict[str, Any]:
        """Let a paused job go on."""
        return self._object("POST", f"/jobs/{_segment(job_id)}/resume")

    def trigger(
        self, job_id: str, kwargs: Mapping[str, Any] | None = None, overlap: str | None = None
    ) -> dict[str, Any]:
        """Run a job now; the new run."""
        return self._object("POST", f"/jobs/{_segment(job_id)}/trigger", json=_given(kwargs=kwargs, overlap=overlap))

    def preview_job(self, job_id: str, count: int = 10, start: str | None = None) -> dict[str, Any]:
        """The next `count` occurrences of a job after `start` (now)."""
        return self._object("GET", f"/jobs/{_segment(job_id)}/preview", params=_given(count=count, **{"from": start}))

    def preview(self, schedule: Mapping[str, Any], count: int = 10, start: str | None = None) -> dict[str, Any]:
        """The next `count` occurrences of a schedule that is not saved."""
        return self._object("POST", "/preview", json=_given(schedule=schedule, count=count, **{"from": start}))

    def enqueue(
        self,
        task: str,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        run_at: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        timeout: str | None = None,
        retry: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Run a task once, now or at `run_at`; the same key and body give the same run again."""
        wanted = _given(
            task=task, args=args, kwargs=kwargs, run_at=run_at, queue=queue, priority=priority, timeout=timeout,
            retry=retry, idempotency_key=idempotency_key,
        )  # fmt: skip
        return self._object("POST", "/runs", json=wanted)

    def enqueue_batch(self, runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Up to 1,000 runs, all or none of them."""
        answer: list[dict[str, Any]] = self._object("POST", "/runs/batch", json={"runs": list(runs)})["runs"]
        return answer

    def runs(self, **filters: Any) -> dict[str, Any]:
        """One page of runs: `job_id`, `state`, `queue`, `since`, `until`, `limit`, `cursor`."""
        return self._object("GET", "/runs", params=filters)

    def run(self, run_id: str) -> dict[str, Any]:
        """One run with its attempts."""
        return self._object("GET", f"/runs/{_segment(run_id)}")

    def cancel(self, run_id: str) -> dict[str, Any]:
        """Ask that a run ends; the run as it is now."""
        return self._object("POST", f"/runs/{_segment(run_id)}/cancel")

    def retry(self, run_id: str) -> dict[str, Any]:
        """Run a final run's task again; the new run."""
        return self._object("POST", f"/runs/{_segment(run_id)}/retry")

    def wait(self, run_id: str, timeout: float = 60, every: float = 0.2) -> dict[str, Any]:
        """The run once it is final; WaitTimeout after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while (run := self.run(run_id))["state"] not in FINAL_STATES:
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"run {run_id} is still {run['state']} after {timeout:g} s")
            time.sleep(min(every, max(0.0, deadline - time.monotonic())))
        return run

    def status(self) -> dict[str, Any]:
        """Who leads since when, and what the leader sees."""
        return self._object("GET", "/scheduler/status")

    def workers(self) -> list[dict[str, Any]]:
        """The workers that the leader hears."""
        items: list[dict[str, Any]] = self._object("GET", "/workers")["items"]
        return items

    def queues(self) -> list[dict[str, Any]]:
        """The queues that the leader feeds."""
        items: list[dict[str, Any]] = self._object("GET", "/queues")["items"]
        return items

    def _object(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._send(method, path, **request).json()
        return answer

    def _send(self, method: str, path: str, **request: Any) -> httpx2.Response:
        if "params" in request:
            request["params"] = _given(**request["params"])
        try:
            response = self._http.request(method, f"{_PREFIX}{path}", **request)
        except httpx2.HTTPError as exc:
            raise NoAnswer(f"no answer from the API at {self.base_url}: {exc}") from exc
        if not response.is_success:
            raise ApiError(response.status_code, _problem(response))
        return response


def _problem(response: httpx2.Response) -> dict[str, Any]:
    try:
        problem = response.json()
    except ValueError:
        problem = None
    return problem if isinstance(problem, dict) else {"title": response.reason_phrase}


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _if_match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}


def _segment(text: str) -> str:
    return quote(text, safe="")
