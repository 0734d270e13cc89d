"""Alerts by cause: each with exactly its runs and one thing to do, and never a line for each job of one outage."""

from collections.abc import Sequence

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Instant, format_instant
from scheduler_service.api.context import system_clock
from scheduler_service.api.pages.alerts import absence, of_failures, of_outages
from scheduler_service.api.pages.outages import outages
from scheduler_service.core.model import MissedRange
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.history import Trouble
from scheduler_service.ports.samples import Term
from tests.support.answering_leader import STATISTICS, AnsweringLeader

NOW: Instant = 1_795_000_000_000_000
TERMS = [Term(3, NOW - 10 * MINUTE, None), Term(2, NOW - HOUR, NOW - 13 * MINUTE), Term(1, 0, NOW - HOUR)]


def failed(job_id: str, error: str, number: int, state: RunState = RunState.FAILED) -> list[Trouble]:
    return [
        Trouble(f"{job_id}_{n}", job_id, "t", state, None, error, "no such customer", NOW - n * SECOND)
        for n in range(number)
    ]


def test_failures_of_one_kind_are_one_alert_with_its_runs_and_a_retry() -> None:
    (told,) = of_failures(failed("a.job", "KeyError", 254), NOW)
    assert told.message == "254 runs of a.job failed for good in the last hour: KeyError: no such customer."
    assert told.link == "/failures/runs?within=1h&state=failed&job_id=a.job&task=t&error_type=KeyError"
    assert told.retry is not None
    assert told.retry.count == 254


def test_of_many_kinds_the_largest_are_told_and_the_others_are_summed_up() -> None:
    told = [*of_failures([one for n in range(1, 9) for one in failed(f"job-{n}", "KeyError", n)], NOW)]
    assert [issue.message.split()[0] for issue in told] == ["8", "7", "6", "15"]
    assert told[-1].message == "15 more runs of 5 other kinds failed or were missed in the last hour."


def test_what_is_missed_is_not_retried() -> None:
    (told,) = of_failures(failed("a.job", "", 1, RunState.MISSED), NOW)
    assert (told.message, told.retry) == ("1 run of a.job was missed in the last hour: too late to start.", None)


def test_an_outage_is_one_alert_for_all_its_jobs_and_says_when_nobody_led() -> None:
    missed = [MissedRange(f"job-{n}", NOW - 13 * MINUTE, NOW - 10 * MINUTE, 3, "misfire skip") for n in range(43)]
    (told,) = of_outages(outages(missed, NOW), TERMS)
    absent = (format_instant(NOW - 13 * MINUTE), format_instant(NOW - 10 * MINUTE))
    assert told.message == (
        f"129 planned runs of 43 jobs left out in the last hour: nobody led from {absent[0]} to {absent[1]}."
    )
    assert (told.label, told.link is not None and told.link.startswith("/failures/backfill?from=")) == (
        "Backfill them…", True,
    )  # fmt: skip


@pytest.mark.parametrize(("terms", "span", "led"), [
    (TERMS, (NOW - 5 * MINUTE, NOW), True), (TERMS, (NOW - 12 * MINUTE, NOW - 11 * MINUTE), False),
    ([], (0, NOW), True), (TERMS[:1], (0, NOW), True),
])  # fmt: skip
def test_an_absence_is_told_where_it_meets_the_outage(
    terms: Sequence[Term], span: tuple[Instant, Instant], led: bool
) -> None:
    assert (absence(terms, *span) is None) == led


def test_a_queue_without_workers_is_told_once_with_its_jobs(api: TestClient, leader: AnsweringLeader) -> None:
    queue = {**STATISTICS["queues"][0], "name": "nobody", "workers": 0, "pending": 2}
    leader.statistics = {**STATISTICS, "queues": [queue]}
    for name in ("b", "a"):
        api.post("/api/v1/runs", json={"task": f"shop.{name}", "queue": "nobody"})
    page = api.get("/").text
    assert page.count("no living worker listens there") == 1
    assert "(shop.a, shop.b)" in page
    assert 'href="/queues/nobody">Open the queue</a>' in page


def test_what_comes_next_names_freezes_and_closed_days(api: TestClient) -> None:
    later = format_instant(system_clock() + HOUR)
    freeze = {"scope": {"all": True}, "reason": "a deploy", "from": later}
    assert api.post("/api/v1/freezes", json=freeze).status_code == 201
    soon = format_instant(system_clock() + 3 * 24 * HOUR)[:10]
    api.put("/api/v1/calendars/de", json={"rules": [{"date": soon, "name": "closed for a day"}]})
    page = api.get("/").text
    assert "Freeze 1 begins: a deploy" in page
    assert "Calendar de: closed for a day" in page
