"""Which transitions ping, and at which address."""

from dataclasses import replace

import pytest

from scheduler_service.core.leader.commands import Transition
from scheduler_service.core.leader.parts.jobs import Jobs
from scheduler_service.core.leader.pinging import with_pings
from scheduler_service.core.model import ActiveRun, JobHistory, RunKind
from scheduler_service.core.pings import JobPing, PingState, PingStyle
from scheduler_service.core.run_state import Event, RunState
from tests.support.store_bed import a_job

ALL = tuple(PingState)
URL = "https://ping.example.org/1"
RUN = ActiveRun("r", RunKind.OCCURRENCE, "job", 1, "default", 5, 0, 0, RunState.PENDING)


def pinged(ping: JobPing | None, to: RunState, attempt: int = 1, run: ActiveRun = RUN) -> list[str]:
    jobs = Jobs()
    jobs.put(JobHistory((replace(a_job(), ping=ping),), 1))
    return [one.url for one in with_pings(jobs, run, Transition("r", attempt, Event.START, to, 0)).pings]


@pytest.mark.parametrize(
    ("to", "found"),
    [
        (RunState.RUNNING, [f"{URL}/start"]),
        (RunState.COMPLETED, [URL]),
        (RunState.FAILED, [f"{URL}/fail"]),
        (RunState.MISSED, [f"{URL}/fail"]),
        (RunState.RETRYING, []),
        (RunState.CANCELLED, []),
        (RunState.SKIPPED, []),
    ],
)
def test_starts_and_ends_ping_and_nothing_else_does(to: RunState, found: list[str]) -> None:
    assert pinged(JobPing(URL, ALL, PingStyle.HEALTHCHECKS), to) == found


def test_a_run_starts_once_whatever_its_attempts() -> None:
    assert pinged(JobPing(URL, ALL), RunState.RUNNING, attempt=2) == []
    assert pinged(JobPing(URL, ALL), RunState.FAILED, attempt=2) == [URL]


def test_only_what_was_asked_for_of_jobs_that_ask() -> None:
    assert pinged(JobPing(URL), RunState.RUNNING) == []
    assert pinged(None, RunState.COMPLETED) == []
    assert pinged(JobPing(URL), RunState.COMPLETED, run=RUN._replace(job_id=None)) == []


@pytest.mark.parametrize(
    ("style", "url", "found"),
    [
        (PingStyle.PLAIN, "https://a.example/{state}?x", "https://a.example/failure?x"),
        (PingStyle.HEALTHCHECKS, "https://a.example/1/", "https://a.example/1/fail"),
        (PingStyle.SENTRY, "https://a.example/1", "https://a.example/1?status=error"),
        (PingStyle.SENTRY, "https://a.example/1?environment=b", "https://a.example/1?environment=b&status=error"),
    ],
)
def test_each_style_names_the_event_its_way(style: PingStyle, url: str, found: str) -> None:
    assert JobPing(url, style=style).address_of(PingState.FAILURE) == found
