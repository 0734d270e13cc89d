"""The Python client and the served API: one real process, real sockets."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import date

import pytest

from itinerary.client.sync import ApiError, Client, NoAnswer, WaitTimeout
from itinerary.protocol.errors import BadValue
from scheduler_service.api.http.serve import listening
from scheduler_service.cli.runs import _polls
from scheduler_service.config.settings import Settings
from tests.support.command_line import Itinerary
from tests.support.processes import REPOSITORY, free_port, project_env

pytestmark = pytest.mark.slow  # real processes, or many round trips


@pytest.fixture
def client(itinerary: Itinerary) -> Iterator[Client]:
    with Client(f"http://127.0.0.1:{itinerary.env['ITINERARY_API_PORT']}") as opened:
        yield opened


def test_a_run_is_enqueued_cancelled_and_waited_for(client: Client) -> None:
    run = client.enqueue("t", [1], {"a": 2}, run_at="2999-01-01T00:00:00Z", retry={"max_attempts": 2})
    with pytest.raises(WaitTimeout, match="still scheduled"):
        client.wait(run["run_id"], timeout=0)
    client.cancel(run["run_id"])
    assert client.wait(run["run_id"])["state"] == "cancelled"
    assert client.retry(run["run_id"])["retry_of"] == run["run_id"]


def test_trends_are_asked_for_by_window_and_queue(client: Client) -> None:
    trends = client.trends("2026-01-01T00:00:00Z", "2026-01-01T10:00:00Z", step="10m", queue="mails")
    assert (trends.step, trends.queue, trends.points) == ("10m", "mails", [])
    assert client.trends().step == "1m"


def test_the_calendar_of_runs_is_asked_for_by_day(client: Client) -> None:
    calendar = client.run_calendar(date(2026, 3, 29), days=1, unit="hour", timezone="Europe/Berlin", queue="mails")
    assert (calendar.timezone, calendar.unit, len(calendar.cells)) == ("Europe/Berlin", "hour", 23)
    assert [cell.date for cell in client.run_calendar("2026-12-01", days=2).cells] == ["2026-12-01", "2026-12-02"]


def test_a_batch_comes_back_in_order(client: Client) -> None:
    wanted = [{"task": "t", "args": [n], "run_at": "2999-01-01T00:00:00Z"} for n in range(3)]
    assert [run["args"] for run in client.enqueue_batch(wanted)] == [[0], [1], [2]]


def test_a_job_is_put_patched_paused_and_deleted(client: Client) -> None:
    job = {"task": "t", "schedule": {"kind": "hourly", "minute": 1}}
    assert client.put_job("client.job", job)["version"] == 1
    assert client.patch_job("client.job", {"title": "x"}, if_version=1)["version"] == 2
    with pytest.raises(ApiError) as stale:
        client.put_job("client.job", job, if_version=1)
    assert stale.value.status == 412
    assert client.pause_job("client.job", "why")["pause_reason"] == "why"
    assert client.resume_job("client.job")["paused"] is False
    assert len(client.preview_job("client.job", count=3)["occurrences"]) == 3
    assert client.trigger("client.job", {"a": 1})["kwargs"] == {"a": 1}
    client.delete_job("client.job")
    assert client.jobs(q="client.job")["items"] == []


def test_a_refusal_says_what_the_api_said(client: Client) -> None:
    with pytest.raises(ApiError, match=r"priority: 11 is not accepted; .*0 to 9.* \(HTTP 422\)") as refused:
        client.enqueue("t", priority=11)
    assert refused.value.problem["errors"][0]["loc"] == ["priority"]


def test_an_id_with_odd_characters_stays_one_segment_of_the_address(client: Client) -> None:
    with pytest.raises(ApiError) as refused:
        client.job("a/../b?c#d")
    assert refused.value.status == 404


def test_no_answer_is_an_error_of_its_own() -> None:
    with Client(f"http://127.0.0.1:{free_port()}") as nobody, pytest.raises(NoAnswer, match="no answer"):
        nobody.status()


@pytest.mark.parametrize("arguments", [{"base_url": "http://[::1"}, {"token": "s\u00e9same"}])
def test_what_no_request_could_be_made_with_is_refused_by_name(arguments: dict[str, str]) -> None:
    (name,) = arguments
    with pytest.raises(BadValue, match=f"^{name}: "):
        Client(**arguments)  # type: ignore[arg-type]


def test_watching_sees_what_goes_on_however_much_is_asked_for_later(client: Client) -> None:
    later = {"task": "t", "queue": "watched", "run_at": "2999-01-01T00:00:00Z"}
    client.enqueue_batch([later] * 100)
    run_id = client.enqueue("t", queue="watched")["run_id"]
    assert next(_polls(client, 60, queue="watched"))["run_id"] == run_id


def test_its_import_is_light() -> None:
    heavy = ("sqlalchemy", "celery", "kombu", "numpy", "croniter", "psycopg", "alembic", "fastapi", "redis", "pydantic")
    script = f"import itinerary.client.sync, sys; print([m for m in {heavy} if m in sys.modules])"
    ended = subprocess.run(
        [sys.executable, "-c", script], env=project_env(), cwd=REPOSITORY, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert ended.stdout.strip() == "[]"


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    """asyncio sets TCP_NODELAY only on sockets that name their protocol."""
    with listening(Settings(api_port=free_port())) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_a_freeze_is_started_shown_listed_and_ended(client: Client) -> None:
    scope = {"tags": ["frozen"]}
    freeze = client.start_freeze(scope, "a deploy", until="2999-01-01T00:00:00Z", during="skip")
    assert (freeze.status, freeze.scope, freeze.during, freeze.ended_at) == ("active", scope, "skip", None)
    assert freeze.since == freeze.created_at
    assert client.freeze(freeze.freeze_id) == freeze
    assert client.freezes("active") == client.freezes() == [freeze]
    assert client.end_freeze(freeze.freeze_id).status == "past"
    assert client.freezes("active") == []
