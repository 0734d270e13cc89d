"""The Python client of the REST API: Python values in, typed results out.

Promises a light import, a timeout on every call, and errors as ItineraryError with the API's message. Repeats a request
only if that has no more effect than sending it once; enqueues carry an idempotency key for that. Threads may share a
client, processes may not. `enqueue_in` is for callers with a transaction of their own.
"""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar
from uuid import uuid4

from itinerary.client.reads import PLANNED_WITHIN
from itinerary.client.results import Backfill, Job, Plan, Rebalance, RebalancePlan, Run
from itinerary.client.run_body import Duration, Moment, Task, changed_body, listed_body, moment_text, run_body
from itinerary.client.transactional import enqueue_in
from itinerary.client.transport import ApiError, NoAnswer, Transport, given, segment
from itinerary.client.views import Views
from itinerary.client.waiting import FINAL_STATES, Patience, RunFailed, WaitTimeout, checked
from itinerary.protocol.errors import BadValues

__all__ = ["FINAL_STATES", "ApiError", "Client", "NoAnswer", "RunFailed", "WaitTimeout", "enqueue_in"]

_Client = TypeVar("_Client", bound="Client")


class Client(Views):
    """One API at `base_url`; `token` is sent as a bearer token. Close it, or use it in a `with` block.

    `timeout` in seconds applies to each request; `retries` is how often a failed one is repeated if that is safe.
    `total_timeout` bounds a request with all its repeats and pauses: for callers that others wait for.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        token: str | None = None,
        timeout: float = 10,
        retries: int = 3,
        *,
        total_timeout: float | None = None,
    ) -> None:
        super().__init__(Transport(base_url, token, timeout, retries, total_timeout))
        self.base_url = self._api.base_url

    def close(self) -> None:
        """Close the connections."""
        self._api.close()

    def __enter__(self: "_Client") -> "_Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create_job(self, job: Mapping[str, Any]) -> Job:
        """Create a job; ApiError 409 if it exists."""
        return Job.of(self._api.object("POST", "/jobs", json=job))

    def put_job(
        self, job_id: str, job: Mapping[str, Any], if_version: int | None = None, *, only_new: bool = False
    ) -> Job:
        """Create or replace a job; ApiError 412 if `if_version` is not the current one, or the job is not new."""
        again, headers = if_version is None and not only_new, _if_match(if_version)
        headers |= {"If-None-Match": "*"} if only_new else {}
        return Job.of(self._api.object("PUT", f"/jobs/{segment(job_id)}", again=again, json=job, headers=headers))

    def patch_job(self, job_id: str, change: Mapping[str, Any], if_version: int | None = None) -> Job:
        """Change some fields of a job."""
        return Job.of(
            self._api.object(
                "PATCH",
                f"/jobs/{segment(job_id)}",
                again=if_version is None,
                json=change,
                headers=_if_match(if_version),
            )
        )

    def apply_jobs(
        self,
        source: str | None,
        jobs: Sequence[Mapping[str, Any]],
        *,
        prune: bool = False,
        dry_run: bool = False,
        take_over: bool = False,
        plan_version: str | None = None,
        monitors: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Plan:
        """Make the jobs of `source` as given, all or nothing; returns the plan that was or would be executed.

        `monitors`, by their ids, are applied with them; None leaves monitors as they are. ApiError 409 if
        `plan_version` is of an older state, or something belongs to another source.
        """
        wanted = given(source=source, plan_version=plan_version, monitors=monitors)
        flags = {"prune": prune, "dry_run": dry_run, "take_over": take_over}
        return Plan.of(self._api.object("POST", "/jobs/apply", json={**wanted, **flags, "jobs": list(jobs)}))

    def delete_job(self, job_id: str, if_version: int | None = None) -> None:
        """Delete a job; its history stays. ApiError 412 if `if_version` is not the current one."""
        self._api.send("DELETE", f"/jobs/{segment(job_id)}", headers=_if_match(if_version))

    def pause_job(
        self,
        job_id: str,
        reason: str | None = None,
        until: Moment | None = None,
        if_version: int | None = None,
        *,
        waiting: str | None = None,
    ) -> Job:
        """Pause a job, indefinitely or `until` an RFC 3339 time; `waiting="skip"` ends runs that already wait."""
        wanted, headers = (
            given(reason=reason, until=moment_text(until, "until"), waiting=waiting),
            _if_match(if_version),
        )
        path = f"/jobs/{segment(job_id)}/pause"
        return Job.of(self._api.object("POST", path, again=if_version is None, json=wanted, headers=headers))

    def resume_job(self, job_id: str, if_version: int | None = None) -> Job:
        """Resume a paused job."""
        path = f"/jobs/{segment(job_id)}/resume"
        return Job.of(self._api.object("POST", path, again=if_version is None, headers=_if_match(if_version)))

    def trigger(
        self,
        job_id: str,
        kwargs: Mapping[str, Any] | None = None,
        overlap: str | None = None,
        *,
        limits: Sequence[str | Mapping[str, Any]] | None = None,
        fair_key: str | None = None,
        force: bool = False,
        if_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Run:
        """Run a job now; returns the new run. The same key and request return the same run again.

        What is not given is the job's; `limits=[]` gives the run none. With `force`, no freeze holds it.
        """
        wanted = given(kwargs=kwargs, overlap=overlap, limits=limits, fair_key=fair_key, force=force or None)
        path = f"/jobs/{segment(job_id)}/trigger"
        headers = {**_if_match(if_version), **_key(idempotency_key)}
        return Run.of(self._api.object("POST", path, again=if_version is None, json=wanted, headers=headers))

    def backfill(
        self,
        job_id: str,
        start: Moment,
        end: Moment,
        overlap: str | None = None,
        *,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Backfill:
        """Run the job's occurrences in [start, end) that did not complete, at their own times; returns the new runs.

        `overlap` is queue_all (one after the other, the default) or allow. A `dry_run` creates nothing. A repeated
        request creates no second run of an occurrence in progress; with the same key, none of a failed one either.
        """
        window = {"from": moment_text(start, "start"), "to": moment_text(end, "end"), "dry_run": dry_run}
        path = f"/jobs/{segment(job_id)}/backfill"
        body = {**window, **given(overlap=overlap)}
        return Backfill.of(self._api.object("POST", path, again=True, json=body, headers=_key(idempotency_key)))

    def enqueue(
        self,
        task: Task,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        run_at: Moment | None = None,
        queue: str | None = None,
        priority: int | None = None,
        timeout: Duration | None = None,
        start_within: Duration | None = None,
        must_end_within: Duration | None = None,
        retry: Mapping[str, Any] | None = None,
        headers: Mapping[str, Any] | None = None,
        limits: Sequence[str | Mapping[str, Any]] | None = None,
        fair_key: str | None = None,
        idempotency_key: str | None = None,
    ) -> Run:
        """Run a task once, now or at `run_at`; the same key and body return the same run again.

        `task` is a name, a Celery task or its signature. Arguments may be of every type that messages carry.
        """
        wanted = run_body(
            task, args, kwargs, run_at=run_at, queue=queue, priority=priority, timeout=timeout,
            start_within=start_within, must_end_within=must_end_within, retry=retry, headers=headers, limits=limits,
            fair_key=fair_key, idempotency_key=idempotency_key,
        )  # fmt: skip
        return Run.of(self._api.object("POST", "/runs", again=True, json=_keyed(wanted)))

    def enqueue_batch(self, runs: Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None) -> list[Run]:
        """Enqueue up to 1,000 runs, all or none; the key is for those that have none of their own."""
        bodies = [_body_of(place, run) for place, run in enumerate(runs)]
        wanted, headers = {"runs": bodies}, _key(idempotency_key)
        answer = self._api.object("POST", "/runs/batch", again=True, json=wanted, headers=headers)
        return [Run.of(run) for run in answer["runs"]]

    def cancel(self, run_id: str) -> Run:
        """Request that a run ends; returns the run as it is now."""
        return Run.of(self._api.object("POST", f"/runs/{segment(run_id)}/cancel", again=True))

    def retry(self, run_id: str, *, idempotency_key: str | None = None) -> Run:
        """Run a final run's task again; returns the new run."""
        return Run.of(
            self._api.object("POST", f"/runs/{segment(run_id)}/retry", again=True, headers=_key(idempotency_key))
        )

    def again(
        self, run_id: str, changes: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> Run:
        """Run a run's task once more, as a one-off run; `changes` are fields of `enqueue`, None resets one.

        `"[redacted]"` where the API masks a value keeps the stored one.
        """
        path = f"/runs/{segment(run_id)}/again"
        headers = _key(idempotency_key)
        return Run.of(self._api.object("POST", path, again=True, json=changed_body(changes or {}), headers=headers))

    def wait(self, run_id: str, timeout: float = 60, every: float = 0.2, *, raises: bool = False) -> Run:
        """Wait until the run is final and return it; `every` is the seconds between queries, fewer at first.

        WaitTimeout after `timeout` seconds; an API that is away meanwhile is waited for too. With `raises`, RunFailed
        for a run that did not complete.
        """
        patience = Patience(timeout, every)
        while True:
            run = self._final_run(run_id, patience)
            if run is not None:
                return checked(run) if raises else run
            time.sleep(patience.pause())

    def result(self, run_id: str, timeout: float = 60) -> Any:
        """The task's result, waited for; RunFailed if the run did not complete, WaitTimeout as `wait`."""
        return self.wait(run_id, timeout, raises=True).result

    def _final_run(self, run_id: str, patience: "Patience") -> Run | None:
        """The run if it is final; WaitTimeout if it is not and the time is up."""
        run = self._run_if_answered(run_id, patience)
        if run is not None and run.state in FINAL_STATES:
            return run
        if patience.is_over():
            state = run.state if run else "unknown"
            raise WaitTimeout(f"run {run_id} is still {state} after {patience.timeout:g} s")
        return None

    def _run_if_answered(self, run_id: str, patience: "Patience") -> Run | None:
        try:
            return self.run(run_id)
        except NoAnswer:
            if patience.is_over():
                raise
            return None
        except ApiError as exc:
            if exc.status not in (429, 503) or patience.is_over():
                raise
            return None

    def preview_rebalance(self) -> RebalancePlan:
        """Plan a rebalance without moving a job; its `plan_id` can be carried out within ten minutes."""
        return RebalancePlan.of(self._api.object("POST", "/scheduler/rebalance/preview", timeout=PLANNED_WITHIN))

    def rebalance(self, plan_id: str | None = None) -> Rebalance:
        """Carry out the plan of a preview, or a new one; ApiError 409 if the plan is too old."""
        return Rebalance.of(
            self._api.object("POST", "/scheduler/rebalance", json=given(plan_id=plan_id), timeout=PLANNED_WITHIN)
        )

    def undo_rebalance(self) -> Rebalance:
        """Undo the last rebalance; ApiError 409 if there is none."""
        return Rebalance.of(self._api.object("POST", "/scheduler/rebalance/undo", timeout=PLANNED_WITHIN))


def _body_of(place: int, run: Mapping[str, Any]) -> dict[str, Any]:
    """One run of a batch; its errors name it as the API does, `runs.3.args.0`."""
    try:
        return listed_body(run)
    except BadValues as exc:
        raise BadValues([error.under(f"runs.{place}") for error in exc.errors]) from None


def _key(given_key: str | None) -> dict[str, str]:
    """The given key, or a new one, so that repeating the request creates nothing a second time."""
    return {"Idempotency-Key": f"client-{uuid4().hex}" if given_key is None else given_key}


def _keyed(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """The run with a key, so that repeating the request does not enqueue it twice."""
    return run if run.get("idempotency_key") is not None else {**run, "idempotency_key": f"client-{uuid4().hex}"}


def _if_match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}
