"""Scheduled jobs of the service in memory: judged and expanded by the real schedules of `itinerary-server`.

The one place of this package that uses the server, if it is installed in the environment of the test.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from itinerary.protocol.attempt_logs import KeepLogs
from itinerary.protocol.errors import BadValue, BadValues, ItineraryError
from itinerary.protocol.instants import Instant
from itinerary.protocol.limits import JOB_LIMITS, RUN_LIMITS, Key, LimitUse, check_fair_key, lane_of, uses_of
from itinerary.protocol.run_fields import RETRY
from itinerary.protocol.run_request import read_field
from itinerary.protocol.wire import HEADER_KEEP_LOGS
from itinerary.testing.run import Run

_KIT: Final = "scheduler_service.testing"


@dataclass
class Job:
    """A stored job: its JSON, and `times`, which gives its instants."""

    body: dict[str, Any]
    times: Any

    @property
    def job_id(self) -> str:
        """Its id."""
        return str(self.body["job_id"])

    def due(self, after: Instant, until: Instant, most: int) -> list[Instant]:
        """Its next instants in (after, until], one more than `most` at most; none while it is paused."""
        found: list[Instant] = [] if self.body["paused"] else self.times(after, until, most + 1)
        return found

    def run(self, run_id: str, at: Instant, *, is_occurrence: bool = False) -> Run:
        """A new run of it, at its time."""
        run = self._run(run_id, at, is_occurrence=is_occurrence)
        limits, fair_key = self._uses(run, {}, [])
        run.limits, run.lane = limits, lane_of(limits, fair_key)
        return run

    def triggered(self, run_id: str, at: Instant, given: Mapping[str, Any]) -> Run:
        """A new run of it on request; BadValues where its arguments have no key."""
        run, errors = self._run(run_id, at), list[BadValue]()
        run.kwargs |= given.get("kwargs") or {}
        limits, fair_key = self._uses(run, given, errors)
        if errors:
            raise BadValues(errors)
        run.limits, run.lane = limits, lane_of(limits, fair_key, self.job_id)
        run.force = bool(given.get("force"))
        return run

    def _uses(
        self, run: Run, given: Mapping[str, Any], errors: list[BadValue]
    ) -> tuple[tuple[LimitUse, ...], str | None]:
        limits = read_field(given, "limits", RUN_LIMITS.read, None, errors)
        fair_key = read_field(given, "fair_key", Key().read, None, errors)
        if limits is None:
            limits = JOB_LIMITS.read(self.body["limits"], "limits")
        check_fair_key(limits, fair_key, errors)
        if fair_key is None and self.body["fair_key"] is not None:
            fair_key = Key(of_job=True).read(self.body["fair_key"], "fair_key")
        return uses_of(limits, fair_key, run.args, run.kwargs, errors)

    def _run(self, run_id: str, at: Instant, *, is_occurrence: bool = False) -> Run:
        body = self.body
        return Run(
            run_id, body["task"], at, at, job_id=self.job_id, args=list(body["args"]), kwargs=dict(body["kwargs"]),
            queue=body["queue"], priority=body["priority"], retry=RETRY.read(body["retry"], "retry"),
            start_within=self.times.start_within, must_end_within=self.times.must_end_within,
            headers=_headers(body), is_occurrence=is_occurrence,
        )  # fmt: skip


def _headers(body: Mapping[str, Any]) -> dict[str, Any] | None:
    keep: str = body.get("keep_logs", KeepLogs.FAILURES.value)
    headers: dict[str, Any] | None = body.get("headers")
    return headers if keep == KeepLogs.FAILURES.value else {**(headers or {}), HEADER_KEEP_LOGS: keep}


def read_job(body: Mapping[str, Any], now: Instant) -> Job:
    """Judge a job as the service does; BadValues, or ItineraryError where the server is not installed."""
    if find_spec(_KIT.partition(".")[0]) is None:
        raise ItineraryError("scheduled jobs need itinerary-server in the environment of the test: install it there")
    times = import_module(_KIT).JobTimes(body, now)
    return Job(times.body, times)
