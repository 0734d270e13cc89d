"""The content of the service in memory: its clock, runs and jobs, and the rules by which requests change them.

Promises the messages of the real service. Threads may call it.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from itinerary.protocol.errors import BadValues, Conflict, ItineraryError, NotFound
from itinerary.protocol.identity import adhoc_run_id, manual_run_id, occurrence_run_id
from itinerary.protocol.instants import Duration, Instant, format_instant
from itinerary.protocol.limits import lane_of
from itinerary.protocol.run_request import RunRequest, over_error
from itinerary.testing.jobs import Job, read_job
from itinerary.testing.run import FINAL, WAITING, Run

MOST: Final = 10_000


class Store:
    """Runs by their id in the order of their creation, jobs by their id.

    The clock stands still at `now`; without it, it runs with the host's, as far ahead as it was moved.
    """

    def __init__(self, now: Instant | None) -> None:
        self._fixed = now
        self._ahead: Duration = 0
        self._passed = self.now
        self.runs: dict[str, Run] = {}
        self.jobs: dict[str, Job] = {}
        self._lock = threading.RLock()

    @property
    def now(self) -> Instant:
        """The time that the clock shows."""
        return (time.time_ns() // 1_000 if self._fixed is None else self._fixed) + self._ahead

    def move(self, by: Duration) -> None:
        """Move the clock; the jobs' runs that fall due are created on the way."""
        with self._lock:
            self._pass_to(self.now + by)
            self._ahead += by

    def _pass_to(self, until: Instant) -> None:
        due = sorted((at, job.job_id) for job in self.jobs.values() for at in job.due(self._passed, until, MOST))
        if len(due) > MOST:
            raise ItineraryError(f"more than {MOST} runs would fall due; advance in smaller steps")
        for at, job_id in due:
            self._add(self.jobs[job_id].run(occurrence_run_id(job_id, at), at, is_occurrence=True))
        self._passed = until

    def next_due(self) -> Run | None:
        """The run that is to start next; those that are too late for their `start_within` are missed."""
        with self._lock:
            now = self.now
            self._pass_to(now)
            due = [run for run in self.runs.values() if run.state in WAITING and run.due_at <= now]
            for run in due:
                if run.start_by is not None and run.attempt == 1 and run.start_by <= now:
                    run.end("missed", f"start_within: not started by {format_instant(run.start_by)}", now)
            waiting = (run for run in due if run.state in WAITING)
            return min(waiting, key=lambda run: (run.due_at, run.priority), default=None)

    def run(self, run_id: str) -> Run:
        """One run, or NotFound."""
        if run_id not in self.runs:
            raise NotFound(f"no run {run_id}")
        return self.runs[run_id]

    def enqueue(self, asked: RunRequest, run_id: str | None = None) -> tuple[Run, bool]:
        """Store a run, and whether it is new; Conflict for a key of another request."""
        with self._lock:
            known = self.with_key(asked.idempotency_key)
            if known is not None:
                if known.request_hash != asked.request_hash:
                    raise Conflict(f"idempotency key {asked.idempotency_key!r} was used for another request")
                return known, False
            now = self.now
            if (over := over_error(asked.run_at, asked.start_within, now)) is not None:
                raise BadValues([over])
            at = now if asked.run_at is None else asked.run_at
            run = Run(
                run_id or adhoc_run_id(uuid4().hex), asked.task, at, at, args=list(asked.args),
                kwargs=dict(asked.kwargs), queue=asked.queue, priority=asked.priority, retry=asked.retry,
                start_within=asked.start_within, must_end_within=asked.must_end_within, headers=asked.headers,
                limits=asked.limits,
                lane=lane_of(asked.limits, asked.fair_key), key=asked.idempotency_key, request_hash=asked.request_hash,
            )  # fmt: skip
            return self._add(run), True

    def with_key(self, key: str | None) -> Run | None:
        """The run that was enqueued with this idempotency key."""
        return next((run for run in list(self.runs.values()) if key is not None and run.key == key), None)

    def cancel(self, run_id: str) -> Run:
        """Cancel a run that waits, ask a running one to stop; a final one is not changed."""
        run = self.run(run_id)
        if run.state not in FINAL:
            run.cancel_requested_at = self.now
        if run.state in WAITING:
            run.end("cancelled", "cancelled on request, before it was released", self.now)
        return run

    def retry(self, run_id: str) -> Run:
        """Run a final run's task again."""
        old = self.run(run_id)
        if old.state not in FINAL:
            raise Conflict(f"run {run_id} is {old.state}; only a final run can be run again")
        new_id = adhoc_run_id(uuid4().hex) if old.job_id is None else manual_run_id(old.job_id, uuid4().hex)
        now = self.now
        run = Run(
            new_id, old.task, now, now, job_id=old.job_id, args=old.args, kwargs=old.kwargs, queue=old.queue,
            priority=old.priority, retry=old.retry, start_within=old.start_within,
            must_end_within=old.must_end_within, headers=old.headers,
            limits=old.limits, lane=old.lane or lane_of(old.limits, None, old.job_id), retry_of=run_id,
        )  # fmt: skip
        return self._add(run)

    def job(self, job_id: str) -> Job:
        """One job, or NotFound."""
        if job_id not in self.jobs:
            raise NotFound(f"no job {job_id}")
        return self.jobs[job_id]

    def put_job(self, body: Mapping[str, Any]) -> Job:
        """Add or replace a job."""
        with self._lock:
            now = self.now
            job = read_job(body, now)
            self._pass_to(now)
            self.jobs[job.job_id] = job
        return job

    def delete_job(self, job_id: str) -> None:
        """Delete a job; its runs stay."""
        self.job(job_id)
        del self.jobs[job_id]

    def trigger(self, job_id: str, body: Mapping[str, Any]) -> Run:
        """Run a job now, with what the request gives in place of the job's."""
        return self._add(self.job(job_id).triggered(manual_run_id(job_id, uuid4().hex), self.now, body))

    def _add(self, run: Run) -> Run:
        with self._lock:
            self.runs[run.run_id] = run
        return run
