"""Arguments that name a secret: the task has the value, and nothing that is stored or told has it."""

import threading
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.core.messages import Failed, Succeeded
from tests.support.processes import wait_until
from tests.support.worker_process import Bench, released
from workers.secret_arguments import SecretRefused, concealed, holds_reference, resolve, without

SECRET = "s3cr3t-value-of-the-tests"
ENV = {"ITINERARY_SECRET_ENV_NAMES": "API_KEY, OTHER", "API_KEY": SECRET, "HOME": "/root"}


def test_references_are_replaced_wherever_they_stand_and_known_by_their_value(tmp_path: Path) -> None:
    (tmp_path / "db-password").write_text("from a file\n")
    args: list[Any] = [1, {"$env": "API_KEY"}, {"a": [{"$secret": "db-password"}], "$env": 1, "b": 2}]
    kwargs: dict[str, Any] = {"headers": {"Authorization": {"$env": "API_KEY"}}}
    assert holds_reference(args)
    known = resolve(args, kwargs, ENV | {"ITINERARY_SECRET_FOLDER": str(tmp_path)})
    assert args == [1, SECRET, {"a": ["from a file"], "$env": 1, "b": 2}]
    assert kwargs == {"headers": {"Authorization": SECRET}}
    assert known == {SECRET: {"$env": "API_KEY"}, "from a file": {"$secret": "db-password"}}
    assert concealed([args, kwargs], known)[1] == {"headers": {"Authorization": {"$env": "API_KEY"}}}


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ({"$env": "HOME"}, "HOME is not allowed: add it to ITINERARY_SECRET_ENV_NAMES"),
        ({"$env": "OTHER"}, "OTHER is not set"),
        ({"$env": ""}, "must name a secret"),
        ({"$env": ["API_KEY"]}, "must name a secret"),
        ({"$secret": "x"}, "set ITINERARY_SECRET_FOLDER"),
    ],
)
def test_what_is_not_allowed_or_missing_is_refused_by_name_and_nothing_is_changed(
    reference: dict[str, Any], says: str
) -> None:
    args: list[Any] = [{"$env": "API_KEY"}, reference]
    with pytest.raises(SecretRefused, match=says) as refused:
        resolve(args, {}, ENV)
    assert args == [{"$env": "API_KEY"}, reference]
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "..", "sub/../../outside", "missing", "empty"])
def test_a_file_outside_the_folder_is_never_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").write_text(SECRET)
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "empty").write_text("\n")
    with pytest.raises(SecretRefused):
        resolve([{"$secret": name}], {}, {"ITINERARY_SECRET_FOLDER": str(folder)})


def test_known_values_are_hidden_inside_texts_the_longest_first() -> None:
    assert without("a longsecret, and long", {"long": 1, "longsecret": 1}) == "a ***, and ***"
    assert without("a b c", {"b": 1}) == "a b c"  # so short a value would hide half of any text


@pytest.mark.redis
@pytest.mark.slow
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_celery_tells_no_value_in_its_events_nor_of_what_it_runs(redis_url: str, tmp_path: Path, pool: str) -> None:
    pause = "7.654321"
    with Bench(redis_url, tmp_path) as bench:
        bench.own_worker("-c", "2", "-P", pool, ITINERARY_SECRET_ENV_NAMES="API_KEY,PAUSE", API_KEY=SECRET, PAUSE=pause)
        told: list[dict[str, Any]] = []
        with bench.app.connection_for_read() as connection:
            receiver = bench.app.events.Receiver(connection, handlers={"*": told.append})
            listening = threading.Thread(target=receiver.capture, kwargs={"limit": None, "wakeup": False})
            listening.start()
            wait_until(lambda: told, 20, lambda: "no heartbeat event came")
            bench.publish(
                released("failing", "itinerary.fail", kwargs={"message": {"$env": "API_KEY"}}),
                released("sleeping", "itinerary.sleep", kwargs={"seconds": {"$env": "PAUSE"}}),
            )
            bench.report_of("failing", Failed)
            wait_until(lambda: "task-failed" in {event["type"] for event in told}, 20, lambda: repr(told))
            receiver.should_stop = True
            listening.join(15)
        running = bench.app.control.inspect(timeout=3).active()
    (failed,) = [event for event in told if event["type"] == "task-failed"]
    assert "RuntimeError('***')" in failed["exception"]
    assert SECRET not in repr(told)
    assert "sleeping" in repr(running)
    assert pause not in repr(running)


@pytest.mark.redis
@pytest.mark.slow
def test_a_task_has_the_value_and_no_report_and_no_log_shows_it(redis_url: str, tmp_path: Path) -> None:
    with Bench(redis_url, tmp_path) as bench:
        worker = bench.own_worker("-c", "1", ITINERARY_SECRET_ENV_NAMES="API_KEY", API_KEY=SECRET)
        reference = {"$env": "API_KEY"}
        bench.publish(released("echoed", "itinerary.echo", "x", kwargs={"key": reference}))
        done = bench.report_of("echoed", Succeeded)
        assert done.result == {"args": ["x"], "kwargs": {"key": reference}}
        bench.publish(released("failing", "itinerary.fail", kwargs={"message": reference}))
        failed = bench.report_of("failing", Failed)
        assert SECRET not in repr(failed)
        assert failed.error["message"] == "***"
        bench.publish(released("refused", "itinerary.echo", {"$env": "PATH"}))
        refused = bench.report_of("refused", Failed)
        assert "PATH is not allowed: add it to ITINERARY_SECRET_ENV_NAMES" in refused.error["message"]
        worker.wait_for_line("raised unexpected: RuntimeError('***')")
        assert SECRET not in worker.output
