"""The progress of running runs over HTTP and on the run page: asked of the leader, kept briefly."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import insert

from itinerary.client.results import Run, RunProgress
from itinerary.protocol.instants import SECOND, format_instant, parse_instant, to_datetime
from scheduler_service.api.http.problems import Problem, unavailable
from scheduler_service.api.services import live_progress
from scheduler_service.api.services.live_progress import LiveProgress
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.config.settings import Settings
from scheduler_service.core.contract.progress_text import percent, progress_text
from scheduler_service.core.leader.messages import Query
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.tables import run_attempts
from tests.api.test_auth import bearer
from tests.api.test_limited_tokens import digest, settings_with
from tests.support.answering_leader import AnsweringLeader
from tests.support.old_runs import keep, old_run

SHOWN = {"done": 412, "total": 1000, "unit": "rows", "at": "2026-11-27T10:00:31Z"}
RUNS = "/api/v1/runs"


@pytest.fixture
def running(settings: Settings, stores: Stores) -> list[str]:
    """Two runs that run and one that is over."""
    now = host_now()
    database = Database(settings.database_url, pool_size=1)
    times = {"scheduled_at": now - SECOND, "started_at": now, "finished_at": None, "state": "running", "worker": "w"}
    over = old_run(now, started_at=now, worker="w")
    found = keep(database, old_run(now, **times), old_run(now, **times), over)
    database.close()
    return found


def show(leader: AnsweringLeader, of: dict[str, Any], count: int | None = None) -> None:
    """The leader knows this progress, and lists as much of it as `of` says."""

    def answer(query: Query) -> dict[str, Any]:
        if query.what == "run":
            return {"run": {"run_id": query.subject, "progress": SHOWN}}
        return {"progress": of, "count": len(of) if count is None else count}

    leader.progress = answer


def asked(leader: AnsweringLeader) -> list[tuple[str, str | None]]:
    found = [message for message in leader.reported if isinstance(message, Query)]
    return [(query.what, query.subject) for query in found if query.what in ("progress", "run")]


def test_a_running_run_has_the_progress_that_the_leader_knows(
    api: TestClient, leader: AnsweringLeader, running: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_progress, "_KEPT_FOR", 3600.0)  # all that follows is within that time
    first, second, over = running
    show(leader, {first: SHOWN, over: SHOWN})
    assert [api.get(f"{RUNS}/{run_id}").json()["progress"] for run_id in running] == [SHOWN, None, None]
    listed = {run["run_id"]: run["progress"] for run in api.get(RUNS).json()["items"]}
    assert listed == {first: SHOWN, second: None, over: None}
    assert asked(leader) == [("progress", None)], "one question for all within the time"


def test_an_attempt_that_is_over_has_the_last_that_it_showed(api: TestClient, settings: Settings) -> None:
    now = host_now()
    with closing(Database(settings.database_url, pool_size=1)) as database:
        ended = old_run(now, started_at=now, worker="w", attempt=2, state="failed", progress=[1000, 1000, "rows"])
        endless = old_run(now, started_at=now, worker="w", progress=[7, None, ""])
        silent = old_run(now, started_at=now, worker="w", attempt=2, state="failed")
        short = old_run(now, started_at=now, worker="w", progress=[95, 100, "rows"])
        for run in (ended, endless, silent, short):
            keep(database, run)
        first = {"run_id": ended["run_id"], "attempt": 1, "outcome": "lost", "pending_at": now, "finished_at": now}
        with database.write() as connection:
            connection.execute(insert(run_attempts), {**first, "progress": [412, 1000, "rows"]})
            connection.execute(insert(run_attempts), {**first, "run_id": silent["run_id"]})
    at = format_instant(now)
    body = api.get(f"{RUNS}/{ended['run_id']}").json()
    whole = {"done": 1000, "total": 1000, "unit": "rows", "at": at}
    assert body["progress"] == whole
    assert [attempt["progress"] for attempt in body["attempts"]] == [{**whole, "done": 412}, whole]
    assert Run.of(body).attempts[0].progress.done == 412
    page = api.get(f"/runs/{ended['run_id']}").text
    assert '<progress aria-labelledby="progress" value="100" max="100"></progress>' in page
    assert "when it ended" in page
    assert "<small>at 412 of 1,000 rows</small>" in page
    page = api.get(f"/runs/{short['run_id']}").text
    assert "<p>95 of 100 rows <small>when it ended" in page
    assert "<progress" not in page, "it is completed, whatever it showed last"
    page = api.get(f"/runs/{endless['run_id']}").text
    assert "<p>7 <small>when it ended" in page
    assert "<progress" not in page
    assert api.get(f"/runs/{silent['run_id']}").status_code == 200, "of two attempts none showed any"


def test_a_run_that_ended_or_waits_asks_nobody(api: TestClient, leader: AnsweringLeader, running: list[str]) -> None:
    api.get(f"{RUNS}/{running[-1]}")
    api.get(RUNS, params={"state": "completed"})
    api.post(RUNS, json={"task": "t"})
    assert asked(leader) == []


def test_of_more_than_are_listed_one_is_asked_for_alone(
    api: TestClient, leader: AnsweringLeader, running: list[str]
) -> None:
    show(leader, {}, count=2_000)
    assert api.get(f"{RUNS}/{running[0]}").json()["progress"] == SHOWN
    assert asked(leader) == [("progress", None), ("run", running[0])]


def test_without_a_leader_and_with_one_of_the_release_before_there_is_none(
    api: TestClient, settings: Settings, running: list[str]
) -> None:
    assert api.get(f"{RUNS}/{running[0]}").json()["progress"] is None


def test_the_release_before_answers_without_it(api: TestClient, leader: AnsweringLeader, running: list[str]) -> None:
    leader.progress = lambda query: {"error": "unknown query"}
    assert api.get(f"{RUNS}/{running[0]}").json()["progress"] is None


def test_a_limited_token_sees_the_progress_of_its_own_runs(
    client_of: Callable[[Settings], TestClient], settings: Settings, leader: AnsweringLeader, running: list[str]
) -> None:
    show(leader, dict.fromkeys(running, SHOWN))
    limited = client_of(settings_with(settings, *(f"{who}:viewer:{digest(who)}:queues={queue}" for who, queue in
                                                  (("ann", "default"), ("bob", "mail")))))  # fmt: skip
    assert limited.get(f"{RUNS}/{running[0]}", headers=bearer("ann")).json()["progress"] == SHOWN
    assert limited.get(f"{RUNS}/{running[0]}", headers=bearer("bob")).status_code == 404


def test_what_was_answered_is_kept_for_a_second_and_a_refusal_for_three() -> None:
    now, questions = [100.0], []

    def ask(what: str, subject: str | None = None) -> dict[str, Any]:
        questions.append(what)
        if now[0] < 101:
            raise_unavailable()
        return {"progress": {"a": SHOWN}, "count": 1}

    live = LiveProgress(lambda: now[0])
    seen = []
    for at in (100.0, 102.9, 103.1, 104.0, 104.2):
        now[0] = at
        seen.append((live.of("a", ask) is not None, len(questions)))
    assert seen == [(False, 1), (False, 1), (True, 2), (True, 2), (True, 3)]


def raise_unavailable() -> None:
    problem: Problem = unavailable("no leader answers", "no-leader")
    raise problem


def test_the_page_shows_a_bar_with_words(api: TestClient, leader: AnsweringLeader, running: list[str]) -> None:
    show(leader, {running[0]: SHOWN, running[1]: {**SHOWN, "total": None}})
    known = api.get(f"/runs/{running[0]}").text
    assert '<progress aria-labelledby="progress" value="41" max="100"></progress>' in known
    assert "412 of 1,000 rows · 41 %" in known
    unknown = api.get(f"/runs/{running[1]}").text
    assert '<progress aria-labelledby="progress"></progress>' in unknown
    assert "412 rows" in unknown
    assert "<progress" not in api.get(f"/runs/{running[2]}").text


@pytest.mark.parametrize("path", ["/", "/runs?state=running"])
def test_lists_of_what_runs_tell_it(api: TestClient, leader: AnsweringLeader, running: list[str], path: str) -> None:
    show(leader, {running[0]: SHOWN})
    assert api.get(path).text.count("<small>412 of 1,000 rows</small>") == 1


@pytest.mark.parametrize(
    ("done", "total", "unit", "text", "share"),
    [
        (412, 1000, "rows", "412 of 1,000 rows", 41),
        (999, 1000, "", "999 of 1,000", 99),
        (1_200_000, None, "rows", "1,200,000 rows", None),
        (12, 10, "rows", "12 of 10 rows", 100),
        (0, 0, "rows", "0 of 0 rows", 100),
        (0.125, 1.5, "GB", "0.12 of 1.5 GB", 8),
    ],
)
def test_progress_is_told_in_words_and_percent(
    done: float, total: float | None, unit: str, text: str, share: int | None
) -> None:
    shown = {"done": done, "total": total, "unit": unit}
    assert (progress_text(shown), percent(shown)) == (text, share)


def test_the_typed_client_has_it(api: TestClient, leader: AnsweringLeader, running: list[str]) -> None:
    show(leader, {running[0]: SHOWN})
    run = Run.of(api.get(f"{RUNS}/{running[0]}").json())
    assert isinstance(run.progress, RunProgress)
    assert (run.progress.done, run.progress.unit) == (412, "rows")
    assert run.progress.at == to_datetime(parse_instant(SHOWN["at"]))
    assert format_instant(parse_instant(SHOWN["at"])) == SHOWN["at"]
